/** @file Which process of the pool reads a document: all of them read at once, and only those that are fit are used again. */
import { beforeEach, expect, test, vi } from "vitest";
import { type Document, TOO_COMPLEX } from "../../../../adapters/tools/documents/document.ts";
import { openReader } from "../../../../adapters/tools/documents/reader.ts";
import type { ReadOutcome } from "../../../../adapters/tools/documents/reader-process.ts";

/** What a fake process does with a document whose text is the key; it reads any other. */
const OUTCOMES: Readonly<Record<string, ReadOutcome>> = {
  large: { extracted: { title: "", text: "large" }, isSpent: true },
  fatal: "fatal",
};
interface FakeProcess {
  isAlive: boolean;
  readonly texts: string[];
}
const processes: FakeProcess[] = [];
let mostAtOnce = 0;
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
      mostAtOnce = Math.max(mostAtOnce, ++reading);
      await new Promise(setImmediate);
      reading -= 1;
      return OUTCOMES[text] ?? { extracted: { title: "", text }, isSpent: false };
    }
    async end() {
      this.isAlive = false;
    }
  },
}));

const read = (reader: ReturnType<typeof openReader>, text: string) =>
  reader.read({ type: "text/plain", url: "https://a.test/", bytes: Buffer.from(text), maxCharacters: 10 });

beforeEach(() => {
  processes.length = 0;
  mostAtOnce = 0;
});

test("two processes read at once, however many documents there are, and are used again", async () => {
  const reader = openReader();
  const texts = Array.from({ length: 10 }, (_, i) => `text ${i}`);
  const extracted = await Promise.all(texts.map((text) => read(reader, text)));
  expect(extracted.map((one) => "text" in one && one.text)).toEqual(texts);
  expect([processes.length, mostAtOnce]).toEqual([2, 2]);
  await reader.close();
});

test.each([
  ["that a document left large", "large", { title: "", text: "large" }],
  ["that did not survive a document", "fatal", TOO_COMPLEX],
])("a process %s reads no other", async (_, text, extracted) => {
  const reader = openReader();
  expect(await read(reader, text)).toEqual(extracted);
  await read(reader, "next");
  expect(processes.map(({ texts, isAlive }) => ({ texts, isAlive }))).toEqual([
    { texts: [text], isAlive: false },
    { texts: ["next"], isAlive: true },
  ]);
  await reader.close();
});

test("an idle process that died is replaced", async () => {
  const reader = openReader();
  await read(reader, "one");
  for (const process of processes) process.isAlive = false;
  expect(await read(reader, "two")).toEqual({ title: "", text: "two" });
  expect(processes.length).toBe(2);
  await reader.close();
});
