/**
 * @file Which process of the pool reads a document: all of them read at once, only healthy ones are reused, and a document whose
 * process ended is read once more, alone.
 */
import { beforeEach, expect, test, vi } from "vitest";
import { type Document, TOO_COMPLEX } from "../../../../adapters/tools/documents/document.ts";
import { openReader, type Reader } from "../../../../adapters/tools/documents/reader.ts";
import type { ReadOutcome } from "../../../../adapters/tools/documents/reader-process.ts";

/** What a fake process does the n-th time with a document whose text is the key. Undefined: it reads the document like any other. */
const OUTCOMES: Readonly<Record<string, (n: number) => ReadOutcome | undefined>> = {
  large: () => ({ extracted: { title: "", text: "large" }, isSpent: true }),
  fatal: () => "fatal",
  innocent: (n) => (n === 1 ? "fatal" : undefined),
  "innocent too": (n) => (n === 1 ? "fatal" : undefined),
};
/** Reads of a document whose text is the key wait for this. */
const holds = new Map<string, Promise<void>>();

/** Reads of the document wait until the returned function is called. */
function hold(text: string): () => void {
  let release = () => {};
  holds.set(text, new Promise((resolve) => (release = resolve)));
  return release;
}

interface FakeProcess {
  isAlive: boolean;
  readonly texts: string[];
}
const processes: FakeProcess[] = [];
/** Texts in the order of their reads, each with the number of documents being read at that time, itself included. */
const reads: [text: string, atOnce: number][] = [];
let maxConcurrent = 0;
let reading = 0;

vi.mock("../../../../adapters/tools/documents/reader-process.ts", () => ({
  noReader: () => new Error("no process"),
  ReaderProcess: class implements FakeProcess {
    isAlive = true;
    readonly texts: string[] = [];
    constructor() {
      processes.push(this);
    }
    async read({ bytes }: Document): Promise<ReadOutcome> {
      if (!this.isAlive) return "undelivered";
      const text = Buffer.from(bytes).toString();
      this.texts.push(text);
      maxConcurrent = Math.max(maxConcurrent, ++reading);
      reads.push([text, reading]);
      const n = reads.filter(([read]) => read === text).length;
      await (holds.get(text) ?? new Promise(setImmediate));
      reading -= 1;
      return OUTCOMES[text]?.(n) ?? { extracted: { title: "", text }, isSpent: false };
    }
    async end() {
      this.isAlive = false;
    }
  },
}));

const read = (reader: Reader, text: string, caller?: string) =>
  reader.read({ type: "text/plain", url: "https://a.test/", bytes: Buffer.from(text), maxCharacters: 10 }, caller);

/** Waits until the pool can make no more progress. */
async function settle(): Promise<void> {
  for (let i = 0; i < 10; i++) await new Promise(setImmediate);
}

beforeEach(() => {
  processes.length = 0;
  reads.length = 0;
  holds.clear();
  maxConcurrent = 0;
});

test("two processes read at once, however many documents there are, and are reused", async () => {
  const reader = openReader();
  const texts = Array.from({ length: 10 }, (_, i) => `text ${i}`);
  const extracted = await Promise.all(texts.map((text) => read(reader, text)));
  expect(extracted.map((one) => "text" in one && one.text)).toEqual(texts);
  expect([processes.length, maxConcurrent]).toEqual([2, 2]);
  await reader.close();
});

test("a caller with many documents does not hold up another", async () => {
  const reader = openReader();
  const greedy = Array.from({ length: 10 }, (_, i) => read(reader, `greedy ${i}`, "greedy"));
  await Promise.all([...greedy, read(reader, "modest", "modest")]);
  // Two are read at once, and the third was next in the queue when "modest" was added.
  expect(reads.slice(0, 4).map(([text]) => text)).toEqual(["greedy 0", "greedy 1", "greedy 2", "modest"]);
  await reader.close();
});

test("a process that uses too much memory after a document reads no other", async () => {
  const reader = openReader();
  expect(await read(reader, "large")).toEqual({ title: "", text: "large" });
  await read(reader, "next");
  expect(processes.map(({ texts, isAlive }) => ({ texts, isAlive }))).toEqual([
    { texts: ["large"], isAlive: false },
    { texts: ["next"], isAlive: true },
  ]);
  await reader.close();
});

test("a document that ends every process that reads it ends only two, however often it is requested", async () => {
  const reader = openReader();
  expect(await read(reader, "fatal")).toEqual(TOO_COMPLEX);
  expect(await read(reader, "fatal")).toEqual(TOO_COMPLEX);
  await read(reader, "next");
  expect(processes.map(({ texts, isAlive }) => ({ texts, isAlive }))).toEqual([
    { texts: ["fatal"], isAlive: false },
    { texts: ["fatal"], isAlive: false },
    { texts: ["next"], isAlive: true },
  ]);
  await reader.close();
});

test("a document whose process ended is read again, alone, after its caller's other documents", async () => {
  const reader = openReader();
  const texts = ["innocent", "a", "b", "c", "d", "e"];
  const extracted = await Promise.all(texts.map((text) => read(reader, text)));
  expect(extracted.map((one) => "text" in one && one.text)).toEqual(texts);
  expect(reads.filter(([text]) => text === "innocent").map(([, atOnce]) => atOnce)).toEqual([1, 1]);
  expect(reads.at(-1)).toEqual(["innocent", 1]);
  expect(maxConcurrent).toBe(2);
  // It was the process's fault, so the document may be read alongside others again.
  await Promise.all(["f", "innocent"].map((text) => read(reader, text)));
  expect(reads.at(-1)).toEqual(["innocent", 2]);
  await reader.close();
});

test("no document is read alongside a suspect, and both processes read again after it", async () => {
  const reader = openReader();
  const suspect = read(reader, "innocent");
  while (reads.length < 2) await new Promise(setImmediate);
  const later = ["a", "b", "c"].map((text) => read(reader, text));
  await Promise.all([suspect, ...later]);
  expect(reads.slice(0, 4)).toEqual([
    ["innocent", 1],
    ["innocent", 1],
    ["a", 1],
    ["b", 2],
  ]);
  await reader.close();
});

test("a suspect waits for the reads in progress, and a second suspect waits for its caller's next turn", async () => {
  const reader = openReader();
  const release = hold("innocent too");
  const all = [read(reader, "innocent"), read(reader, "innocent too")];
  await settle();
  // The first has ended its process, and the second is still being read.
  all.push(read(reader, "other", "another"));
  await settle();
  expect(reads.map(([text]) => text)).toEqual(["innocent", "innocent too"]);
  release();
  expect((await Promise.all(all)).map((one) => "text" in one && one.text)).toEqual([
    "innocent",
    "innocent too",
    "other",
  ]);
  expect(reads.slice(2)).toEqual([
    ["innocent", 1],
    ["other", 1],
    ["innocent too", 1],
  ]);
  await reader.close();
});

test("of six copies of a fatal document, two are read at once and one alone; the remaining copies are not read", async () => {
  const reader = openReader();
  const copies = await Promise.all(Array.from({ length: 6 }, () => read(reader, "fatal")));
  expect(new Set(copies)).toEqual(new Set([TOO_COMPLEX]));
  expect(reads.map(([, atOnce]) => atOnce)).toEqual([1, 2, 1]);
  await reader.close();
});

test("a waiting suspect is rejected when the reader closes, and so is a document whose process ends then", async () => {
  const reader = openReader();
  const release = hold("innocent too");
  const settled = Promise.allSettled(["innocent", "innocent too"].map((text) => read(reader, text)));
  await settle();
  const closing = reader.close();
  release();
  const rejected = { status: "rejected", reason: { code: "canceled" } };
  expect(await settled).toMatchObject([rejected, rejected]);
  await closing;
  expect(reads).toHaveLength(2);
});

test("an idle process that died is replaced", async () => {
  const reader = openReader();
  await read(reader, "one");
  for (const process of processes) process.isAlive = false;
  expect(await read(reader, "two")).toEqual({ title: "", text: "two" });
  expect(processes.length).toBe(2);
  await reader.close();
});
