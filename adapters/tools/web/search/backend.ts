/** @file The port of search backends: the request they take, and the results they all return. */
import * as z from "zod";
import type { BackendRequest } from "../external/backend.ts";

export interface SearchResult {
  readonly title: string;
  readonly url: string;
  readonly snippet: string;
}

export interface SearchBackend {
  /** The part of the cache's key that tells addresses of one origin apart: an instance's path, or an API's. Empty for the usual path. */
  readonly pathKey: string;
  /** The request for this many results; a response may hold more. @param query short enough for every backend. */
  request(query: string, results: number): BackendRequest<readonly SearchResult[]>;
}

/** A title or a snippet in a response. A result is valid without one, or with null. */
export const OptionalText = z
  .string()
  .nullish()
  .transform((text) => text ?? "");

/** `pathKey` of an API. */
export function pathKeyOf(url: string, usual: string): string {
  const { pathname } = new URL(url);
  return pathname === usual ? "" : pathname;
}
