/** @file What a search backend is: how it is asked, and what it answers, as found by all of them. */
import type { BackendRequest } from "../external/backend.ts";

export interface SearchResult {
  readonly title: string;
  readonly url: string;
  readonly snippet: string;
}

export interface SearchBackend {
  /** The request for so many results. */
  request(query: string, results: number): BackendRequest<readonly SearchResult[]>;
}
