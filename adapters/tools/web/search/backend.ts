/** @file The port of search backends: the request they take, and the results they all return. */
import * as z from "zod";
import type { BackendRequest } from "../external/backend.ts";

export interface SearchResult {
  readonly title: string;
  readonly url: string;
  readonly snippet: string;
}

export interface SearchBackend {
  /** Where an instance that the user hosts is, below its origin: part of the cache's key. Absent: an API, or an instance without a path. */
  readonly instancePath?: string;
  /** The request for this many results. @param query short enough for every backend. */
  request(query: string, results: number): BackendRequest<readonly SearchResult[]>;
}

/** A title or a snippet in a response. A result is valid without one, or with null. */
export const OptionalText = z
  .string()
  .nullish()
  .transform((text) => text ?? "");
