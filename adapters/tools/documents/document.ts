/** @file The messages between a process that reads documents and its parent. Every text in a reply has a maximum length. */

export interface Document {
  readonly url: string;
  /** The Content-Type header; may be empty. */
  readonly type: string;
  readonly bytes: Uint8Array;
  /** Maximum length of the text; the rest is cut. */
  readonly maxCharacters: number;
}

/** `unreadable`: the reason, as the agent reads it. */
export type Extracted = { readonly title: string; readonly text: string } | { readonly unreadable: string };

/** Bounds in characters. Longer titles, sheet names and reasons are cut; longer links are dropped. */
export const MAX_TITLE = 300;
export const MAX_SHEET_NAME = 100;
export const MAX_LINK = 2000;
export const MAX_REASON = 200;

/** Reading the document exceeds the time limit, the memory limit, or a limit on its size or depth. */
export const TOO_COMPLEX: Extracted = { unreadable: "it needs too much memory or time" };

/**
 * What a library's error means for the document. V8 throws a RangeError when a stack, string or buffer would be too large; any other
 * error is a parse error. `damaged`: what to call the document then.
 */
export function unreadableBy(error: unknown, damaged = "damaged"): Extracted {
  return error instanceof RangeError ? TOO_COMPLEX : { unreadable: `it is ${damaged}` };
}

/** A process's reply. */
export interface Reply {
  readonly extracted: Extracted;
  /** The process uses so much memory that it should not read another document. */
  readonly isSpent: boolean;
}

/** Messages besides the replies. Ready: the process can read documents. Started: it has received one and begins to read it. */
export const READY = "ready";
export const STARTED = "started";
