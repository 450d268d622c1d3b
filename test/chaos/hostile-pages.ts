/**
 * @file Pages that are made to break the document reader. It refuses most of them and can read the others; on a busy machine it may refuse those
 * too. Either way the agent gets the same text, so all trials have the same records.
 */
import { type Extracted, TOO_COMPLEX } from "../../adapters/tools/documents/document.ts";
import * as hostile from "../fixtures/hostile-documents.ts";
import type { HostilePage } from "./schedule.ts";

const HTML = "text/html";

/** The address that a reader is given: links on a page are relative to it. */
export const PAGE_URL = "http://world/page";
export const MAX_CHARACTERS = 1000;
const LINKS = 150;

interface HostileDocument {
  readonly type: string;
  readonly bytes: () => Uint8Array;
  /** What its reader finds in it, cut to `MAX_CHARACTERS`. Absent: the reader refuses it. */
  readonly text?: string;
}

const cut = (text: string) => text.slice(0, MAX_CHARACTERS);

export const hostileDocuments: Readonly<Record<HostilePage, HostileDocument>> = {
  farCell: { type: hostile.XLSX, bytes: () => hostile.farCell("ZZZZZZ4294967295") },
  repeatedString: {
    type: hostile.XLSX,
    bytes: () => hostile.repeatedString(1200, 400_000),
    text: cut(`[sheet 1 of 1: Sheet]\n${"x".repeat(MAX_CHARACTERS)}`),
  },
  manyParts: { type: hostile.XLSX, bytes: () => hostile.manyParts(378, 530_000) },
  longTitle: { type: hostile.PDF, bytes: () => hostile.longTitle(100_000_000) },
  longPage: {
    type: hostile.PDF,
    bytes: () => hostile.longPage(980_000),
    // All other letters lie outside the page.
    text: `[page 1 of 1]\n${"A".repeat(77)}`,
  },
  longBase: {
    type: HTML,
    bytes: () => hostile.longBase(2_000_000, LINKS),
    text: cut("[a link](http://world/c)\n\n".repeat(LINKS)),
  },
  nestedElements: { type: HTML, bytes: () => hostile.nestedElements(100_000) },
  multipliedElements: { type: HTML, bytes: () => hostile.multipliedElements(400, 100_000) },
};

const TEXTS: ReadonlySet<string | undefined> = new Set(Object.values(hostileDocuments).map(({ text }) => text));

/**
 * What the agent reads. A text that no hostile page has is a fault of the reader: the agent gets it as it is, so the records differ and the
 * trial fails.
 */
export function textFor(extracted: Extracted): string {
  if ("unreadable" in extracted) return extracted.unreadable;
  return TEXTS.has(extracted.text) ? textFor(TOO_COMPLEX) : extracted.text;
}
