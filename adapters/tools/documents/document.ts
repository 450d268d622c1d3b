/** @file A document on its way to a process that reads it, and what comes back. Every field that comes back has a bound. */

export interface Document {
  readonly url: string;
  /** The Content-Type header; may be empty. */
  readonly type: string;
  readonly bytes: Uint8Array;
  /** Maximum length of the text; the rest is cut. */
  readonly maxCharacters: number;
}

/** `unreadable`: why, for the agent. */
export type Extracted = { readonly title: string; readonly text: string } | { readonly unreadable: string };

/** Bounds in characters. Longer text and sheet names are cut; longer links are dropped. */
export const MAX_TITLE = 300;
export const MAX_NAME = 100;
export const MAX_LINK = 2000;
export const MAX_REASON = 200;

/** The document exceeds the time, the memory, or the limits of a library. */
export const TOO_COMPLEX: Extracted = { unreadable: "it needs too much memory or time" };

/** A process's reply. */
export interface Reply {
  readonly extracted: Extracted;
  /** The process uses so much memory that it should not read another document. */
  readonly isSpent: boolean;
}

/** Messages of a process before its replies: it can read documents; it has received one and is starting. */
export const READY = "ready";
export const STARTED = "started";
