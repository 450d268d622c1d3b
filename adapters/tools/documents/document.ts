/** @file The messages to and from the thread that reads documents. */

export interface Document {
  readonly url: string;
  /** The Content-Type header; may be empty. */
  readonly type: string;
  readonly bytes: Uint8Array;
}

/** `unreadable`: why, for the agent. */
export type Extracted = { readonly title: string; readonly text: string } | { readonly unreadable: string };

/** The document exceeds the time, the memory, or the limits of a library. */
export const TOO_COMPLEX: Extracted = { unreadable: "it is too complex to be read" };
