/** @file An http or https address without credentials, because error messages quote it. */
import * as z from "zod";

export const HttpUrl = z
  .url({ protocol: /^https?$/ })
  .refine(hasNoCredentials, { error: "must not contain a user name or password" });

/** Whether a URL has neither user nor password. True for text that is not a URL. */
export function hasNoCredentials(url: string): boolean {
  if (!URL.canParse(url)) return true;
  const { username, password } = new URL(url);
  return `${username}${password}` === "";
}
