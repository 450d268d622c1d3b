/** @file An http or https address without credentials: messages name addresses. */
import * as z from "zod";

export const HttpUrl = z
  .url({ protocol: /^https?$/ })
  .refine(hasNoUser, { error: "must be without user and password" });

export function hasNoUser(url: string): boolean {
  if (!URL.canParse(url)) return true;
  const { username, password } = new URL(url);
  return `${username}${password}` === "";
}
