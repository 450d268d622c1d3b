/** @file What is told to the thread that reads documents, and what it tells. */

export interface Document {
  readonly url: string;
  /** The Content-Type header; may be empty. */
  readonly type: string;
  readonly bytes: Uint8Array;
}

/** `unreadable`: why, for the agent. */
export type Extracted = { readonly title: string; readonly text: string } | { readonly unreadable: string };

/** Out of time or memory, or more than a library can take: the document did it. */
export const TOO_COMPLEX: Extracted = { unreadable: "it is too complicated to be read" };
