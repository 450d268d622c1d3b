/**
 * @file Documents that are designed to break their reader. Each is read or refused within its limits: this process stays alive and responsive,
 * memory is bounded, and the next document is read.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Document,
  type Extracted,
  MAX_REASON,
  MAX_TITLE,
  TOO_COMPLEX,
} from "../../../../adapters/tools/documents/document.ts";
import { openReader, type Reader } from "../../../../adapters/tools/documents/reader.ts";
import { ReaderProcess, type ReadOutcome } from "../../../../adapters/tools/documents/reader-process.ts";
import * as hostile from "../../../fixtures/hostile-documents.ts";
import { peakMemory } from "./memory.ts";

const { PDF, XLSX } = hostile;
const HTML = "text/html";
const MAX_CHARACTERS = 100_000;
/** Bytes of all readers, including what one may allocate between two checks by the memory watch, which may have to wait for a CPU. */
const MAX_MEMORY = 2e9;
/** The deadline of a document. */
const SECONDS = 20;
/** How long a busy machine may stall this process. A document read in this process would block it for a whole deadline. */
const MAX_STALL_SECONDS = SECONDS;
/** Two deadlines, since a document that misses one is read again, and 30 seconds to start two processes on a busy machine. */
const MAX_SECONDS = 2 * SECONDS + 30;

let reader: Reader;
beforeAll(() => {
  reader = openReader();
});
afterAll(() => reader.close());

const document = (type: string, bytes: Uint8Array): Document => ({
  url: "https://a.test/",
  type,
  bytes,
  maxCharacters: MAX_CHARACTERS,
});

/** Reads the document, and checks the limits. */
async function readWithinLimits(hostileDocument: Document): Promise<Extracted> {
  const started = performance.now();
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  let extracted: Extracted | undefined;
  const peak = await peakMemory(async () => {
    extracted = await reader.read(hostileDocument);
  });
  delay.disable();
  expect(peak).toBeLessThan(MAX_MEMORY);
  expect(delay.max / 1e9).toBeLessThan(MAX_STALL_SECONDS);
  expect((performance.now() - started) / 1000).toBeLessThan(MAX_SECONDS);
  if (!extracted) throw new Error("not read");
  if ("text" in extracted) {
    expect(extracted.text.length).toBeLessThanOrEqual(MAX_CHARACTERS);
    expect(extracted.title.length).toBeLessThanOrEqual(MAX_TITLE);
  }
  return extracted;
}

describe("is read or refused within its limits:", () => {
  test.each<[string, string, () => Uint8Array, number, Extracted | { text: unknown }]>([
    ["a workbook with a cell beyond all sheets", XLSX, () => hostile.farCell("ZZZZZZ4294967295"), 2000, TOO_COMPLEX],
    ["a workbook with the last cell of a sheet", XLSX, () => hostile.farCell("XFD1048576"), 2000, TOO_COMPLEX],
    [
      "a workbook with 1,200 references to one string",
      XLSX,
      () => hostile.repeatedString(1200, 400_000),
      9000,
      { text: expect.stringMatching(/^\[sheet 1 of 1: Sheet\]\nx{99978}$/) },
    ],
    [
      "a workbook of many parts that declare large sizes",
      XLSX,
      () => hostile.manyParts(378, 530_000),
      300_000,
      TOO_COMPLEX,
    ],
    ["a PDF with a title of 100 MB", PDF, () => hostile.longTitle(100_000_000), 1200, TOO_COMPLEX],
    [
      "a page with a base of 2 MB and 150 links",
      HTML,
      () => hostile.longBase(2_000_000, 150),
      2_010_000,
      { title: "Links", text: expect.stringMatching(/^(\[a link\]\(https:\/\/a\.test\/c\)\s*){150}$/) },
    ],
    ["a page of 100,000 nested elements", HTML, () => hostile.nestedElements(100_000), 500_001, TOO_COMPLEX],
    ["a page that multiplies its elements", HTML, () => hostile.multipliedElements(400, 100_000), 500_000, TOO_COMPLEX],
  ])("%s", async (_, type, make, maxBytes, expected) => {
    const bytes = make();
    expect(bytes.length).toBeLessThan(maxBytes);
    expect(await readWithinLimits(document(type, bytes))).toMatchObject(expected);
    expect(await reader.read(document(HTML, Buffer.from("<title>T</title><p>ordinary")))).toEqual({
      title: "T",
      text: "ordinary",
    });
  });
});

test.runIf(process.platform === "linux")("a process that uses too much memory ends before its deadline", async () => {
  const process = new ReaderProcess();
  await process.read(document("text/plain", Buffer.from("warm")), SECONDS);
  const seconds = 80;
  const started = performance.now();
  let outcome: ReadOutcome | undefined;
  const peak = await peakMemory(async () => {
    outcome = await process.read(document(PDF, hostile.longTitle(200_000_000)), seconds);
  });
  expect(outcome).toBe("fatal");
  expect((performance.now() - started) / 1000).toBeLessThan(seconds);
  expect(process.isAlive).toBe(false);
  expect(peak).toBeGreaterThan(0.5e9);
  expect(peak).toBeLessThan(MAX_MEMORY);
});

test("three deep pages, and an ordinary one of another rollout behind them, wait for no deadline", async () => {
  const started = performance.now();
  const deep = [1, 2, 3].map((i) => reader.read(document(HTML, hostile.nestedElements(100_000 + i)), "greedy"));
  const ordinary = reader.read(document(HTML, Buffer.from("<p>ordinary")), "modest");
  expect(await Promise.all(deep)).toEqual([TOO_COMPLEX, TOO_COMPLEX, TOO_COMPLEX]);
  expect(await ordinary).toMatchObject({ text: "ordinary" });
  // A page that missed its deadline would be read again, until it misses the next one.
  expect((performance.now() - started) / 1000).toBeLessThan(2 * SECONDS);
});

test("long titles and sheet names are cut, and long links are dropped", async () => {
  expect(await reader.read(document(PDF, hostile.longTitle(1_000_000)))).toMatchObject({
    title: "A".repeat(MAX_TITLE),
  });
  const link = `https://a.test/${"l".repeat(3000)}`;
  const page = `<title>${"t".repeat(1000)}</title><p><a href="${link}">long</a> <a href="/short">short</a>`;
  expect(await reader.read(document(HTML, Buffer.from(page)))).toEqual({
    title: "t".repeat(MAX_TITLE),
    text: "long [short](https://a.test/short)",
  });
  // Neither the base nor the target is too long, but the link is.
  const half = "b".repeat(1500);
  const based = `<base href="https://a.test/${half}/"><p><a href="${half}">long</a> text`;
  expect(await reader.read(document(HTML, Buffer.from(based)))).toEqual({ title: "", text: "long text" });
  const cells = '<row r="1"><c r="A1"><v>7</v></c></row>';
  expect(await reader.read(document(XLSX, hostile.workbook(cells, [], "n".repeat(9000))))).toEqual({
    title: "",
    text: `[sheet 1 of 1: ${"n".repeat(100)}]\n7`,
  });
});

test("long texts and reasons are cut", async () => {
  const long = Buffer.from("t".repeat(2 * MAX_CHARACTERS));
  expect(await reader.read(document("text/plain", long))).toEqual({ title: "", text: "t".repeat(MAX_CHARACTERS) });
  expect(await reader.read(document(`application/${"x".repeat(5000)}`, long))).toEqual({
    unreadable: `it is application/${"x".repeat(MAX_REASON)}`.slice(0, MAX_REASON),
  });
});
