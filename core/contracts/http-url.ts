/** @file An http or https address without credentials: messages name addresses. */
import * as z from "zod";

/** Such an address. */
export const HttpUrl = z
  .url({ protocol: /^https?$/ })
  .refine(hasNoUser, { error: "must be without user and password" });

/** Whether a URL has neither user nor password. True for what is no URL. */
export function hasNoUser(url: string): boolean {
  if (!URL.canParse(url)) return true;
  const { username, password } = new URL(url);
  return `${username}${password}` === "";
}
