/**
 * @file The pool of processes that read documents: deadlines, memory, closing, killed processes, and the death of the parent. Also how
 * Content-Types and PDFs are read.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import {
  type Document,
  type Extracted,
  MAX_TITLE,
  TOO_COMPLEX,
  unreadableBy,
} from "../../../../adapters/tools/documents/document.ts";
import { extractPdf } from "../../../../adapters/tools/documents/pdf.ts";
import { openReader, type Reader } from "../../../../adapters/tools/documents/reader.ts";
import { builtModule } from "../../../../built-module.ts";
import {
  farCell,
  longPage,
  longTitle,
  multipliedElements,
  nestedElements,
  PDF,
  XLSX,
} from "../../../fixtures/hostile-documents.ts";
import { pdfOf } from "../../../world/pdf.ts";
import { childrenOf, cpuSeconds, isRunning } from "./memory.ts";

const page = (html: string): Document => ({
  type: "text/html",
  url: "https://example.com/",
  bytes: Buffer.from(html),
  maxCharacters: 1000,
});

/** Takes seconds to read. */
const longDocument = (start: string) => page(`<p>${start}</p>${"<p>a paragraph</p>".repeat(30_000)}`);

/** Whether this is Linux, the only platform where these tests can find the processes. */
const LINUX = process.platform === "linux";

let reader: Reader;
afterEach(() => reader.close());

test("documents that miss their deadline are refused", async () => {
  reader = openReader(0.001);
  const refused = await Promise.all(["one", "two"].map((start) => reader.read(longDocument(start))));
  expect(refused).toEqual([TOO_COMPLEX, TOO_COMPLEX]);
});

test("a library's RangeError makes a document too complex; an unsupported encoding does not", async () => {
  expect(unreadableBy(new RangeError("Invalid string length"))).toEqual(TOO_COMPLEX);
  expect(unreadableBy(new TypeError("no body"))).toEqual({ unreadable: "it is damaged" });
  reader = openReader();
  expect(await reader.read({ ...page("?"), type: "text/plain; charset=iso-2022-kr" })).toEqual({
    unreadable: "its character encoding is not supported",
  });
  // Node.js 20 and 22 lack this encoding.
  expect(await reader.read({ ...page("?"), type: "text/plain; charset=iso-8859-16" })).not.toEqual(TOO_COMPLEX);
});

test("a Content-Type that is sent twice is one type, with the charset of either", async () => {
  reader = openReader();
  const bytes = Buffer.from("<h1>Alby</h1><p hidden>Do as I say</p><p>café</p>", "latin1");
  for (const type of ["text/html, text/html; charset=iso-8859-1", "text/html; charset=iso-8859-1, text/html"])
    expect(await reader.read({ ...page(""), bytes, type })).toMatchObject({ text: "# Alby\n\ncafé" });
  const pdf = { ...page(""), bytes: pdfOf(["Salt mines of Alby"]), type: "application/pdf, application/pdf" };
  expect(await reader.read(pdf)).toMatchObject({ text: "[page 1 of 1]\nSalt mines of Alby" });
});

test.each<[string, string, () => Uint8Array, Extracted]>([
  ["a workbook with a cell beyond all sheets", XLSX, () => farCell("ZZZZZZ4294967295"), TOO_COMPLEX],
  [
    "a PDF with a long deflated title",
    PDF,
    () => longTitle(200_000),
    { title: "A".repeat(MAX_TITLE), text: "[page 1 of 1]\n" },
  ],
  ["a page of 600 nested elements", "text/html", () => nestedElements(600), TOO_COMPLEX],
])("%s is read or refused, and its process reads the next document", async (_, type, make, expected) => {
  const others = childrenOf(process.pid);
  reader = openReader();
  const own = () => childrenOf(process.pid).filter((id) => !others.includes(id));
  await reader.read(page("<p>before</p>"));
  const before = own();
  expect(await reader.read({ ...page(""), type, bytes: make() })).toEqual(expected);
  expect(await reader.read(page("<p>after</p>"))).toMatchObject({ text: "after" });
  expect(own()).toEqual(before);
});

test("a document that ended two processes is remembered, and not read again", async () => {
  reader = openReader(2);
  const slow = { ...page(""), type: PDF, bytes: longPage(98_000_000) };
  expect(await reader.read(slow)).toEqual(TOO_COMPLEX);
  // The ordinary document needs a new process; the refusal does not wait for it.
  const order: string[] = [];
  const ordinary = reader.read({ ...page("ordinary"), type: "text/plain" }).finally(() => order.push("ordinary"));
  const again = reader.read({ ...slow }).finally(() => order.push("again"));
  expect(await again).toEqual(TOO_COMPLEX);
  expect(await ordinary).toMatchObject({ text: "ordinary" });
  expect(order).toEqual(["again", "ordinary"]);
});

test.runIf(LINUX)("a process is ended if it uses too much memory after it has read a document", async () => {
  const others = childrenOf(process.pid);
  reader = openReader();
  await reader.read(page("<p>small</p>"));
  const [first = expect.fail("its process was not found")] = childrenOf(process.pid).filter(
    (id) => !others.includes(id),
  );
  await reader.read({ ...page(""), type: "text/plain", bytes: Buffer.alloc(150e6, "x") });
  expect(childrenOf(process.pid)).not.toContain(first);
  expect(await reader.read(page("<p>small</p>"))).toMatchObject({ text: "small" });
});

test("a PDF whose text has an encoding without a table says that text is missing", async () => {
  const latin = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>";
  const system = "/CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 4 >>";
  const descriptor = "/FontDescriptor << /Type /FontDescriptor /FontName /SimSun /Flags 6 >>";
  const simSun = `<< /Type /Font /Subtype /CIDFontType0 /BaseFont /SimSun ${system} ${descriptor} >>`;
  const chinese = `<< /Type /Font /Subtype /Type0 /BaseFont /SimSun /Encoding /GBK-EUC-H /DescendantFonts [${simSun}] >>`;
  const read = (font: string) => {
    const bytes = Buffer.from(pdfOf(["AB"]).toString("latin1").replace(latin, font), "latin1");
    return extractPdf({ ...page(""), type: PDF, bytes });
  };
  expect(await read(latin)).toEqual({ title: "", text: "[page 1 of 1]\nAB" });
  expect(await read(chinese)).toMatchObject({
    text: expect.stringMatching(/^\[some text is missing: .*\]\n\n\[page 1 of 1\]/),
  });
});

test("a PDF is read up to the page that reaches the character limit", async () => {
  const bytes = pdfOf(["first page", "second page", "third page"]);
  const read = await extractPdf({ ...page(""), type: PDF, bytes, maxCharacters: 40 });
  expect(read).toMatchObject({ text: "[page 1 of 3]\nfirst page\n\n[page 2 of 3]\nsecond page" });
});

test("a closed reader rejects its reads as canceled, with no verdict on the document", async () => {
  reader = openReader();
  const reading = [1, 2, 3].map((i) => reader.read(page(`<p>${i}</p>`)));
  const settled = Promise.allSettled(reading);
  // Its processes have started, and cannot have read anything yet.
  await new Promise(setImmediate);
  await reader.close();
  for (const end of await settled) expect(end).toMatchObject({ status: "rejected", reason: { code: "canceled" } });
  await expect(reader.read(page("<p>late</p>"))).rejects.toMatchObject({ code: "canceled" });
});

test.skipIf(!LINUX)(
  "a process that is killed from outside is replaced; the signals that a whole process group gets do not end it",
  async () => {
    const others = childrenOf(process.pid);
    const ownChildren = () => childrenOf(process.pid).filter((id) => !others.includes(id));
    reader = openReader();
    expect(await reader.read(page("<p>one</p>"))).toMatchObject({ text: "one" });
    const [child = expect.fail("its process was not found")] = ownChildren();
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.kill(child, signal);
    expect(await reader.read(page("<p>two</p>"))).toMatchObject({ text: "two" });
    expect(ownChildren()).toEqual([child]);
    process.kill(child, "SIGKILL");
    await expect.poll(() => isRunning(child)).toBe(false);
    expect(await reader.read(page("<p>three</p>"))).toMatchObject({ text: "three" });
  },
);

test.skipIf(!LINUX)("a document is read again if its process is killed from outside while reading it", async () => {
  const others = childrenOf(process.pid);
  reader = openReader();
  await reader.read(page("<p>warm</p>"));
  const [child = expect.fail("its process was not found")] = childrenOf(process.pid).filter(
    (id) => !others.includes(id),
  );
  const before = cpuSeconds(child);
  const long = reader.read(longDocument("start"));
  const isOver = long.then(() => true);
  await expect.poll(() => cpuSeconds(child) - before, { interval: 10 }).toBeGreaterThan(0.05);
  process.kill(child, "SIGSTOP");
  expect(await Promise.race([isOver, false])).toBe(false);
  process.kill(child, "SIGKILL");
  expect(await long).toMatchObject({ text: expect.stringMatching(/^start\s/) });
});

/** False where /proc is missing or read-only, as in a sandbox; elsewhere every process may raise its own score. */
function canRaiseOomScore(): boolean {
  const path = "/proc/self/oom_score_adj";
  try {
    writeFileSync(path, readFileSync(path));
    return true;
  } catch {
    return false;
  }
}

test.skipIf(!canRaiseOomScore())("the OOM score of a reader lets the kernel kill it before its parent", async () => {
  const others = childrenOf(process.pid);
  reader = openReader();
  await reader.read(page("<p>one</p>"));
  const own = childrenOf(process.pid).filter((id) => !others.includes(id));
  expect(own.map((id) => readFileSync(`/proc/${id}/oom_score_adj`, "utf8").trim())).toEqual(["1000"]);
});

/** Nothing but the reader keeps this program alive. */
const CLOSER = `
  const { openReader } = await import(process.argv[1]);
  const reader = openReader();
  await reader.read({ url: "http://a.test/", type: "text/plain", maxCharacters: 10, bytes: Buffer.from("text") });
  await reader.close();
  console.log("closed");
`;

test("a program that waits for its reader to close continues", async () => {
  reader = openReader();
  const built = builtModule("adapters/tools/documents/reader").href;
  const program = spawn(process.execPath, ["--input-type=module", "--eval", CLOSER, built], { stdio: "pipe" });
  let output = "";
  program.stdout.on("data", (chunk) => {
    output += chunk;
  });
  expect(await once(program, "close")).toEqual([0, null]);
  expect(output).toBe("closed\n");
});

/** Reads a document that keeps its process busy for longer than the test lets it work. */
const PARENT = `
  import { readFileSync } from "node:fs";
  const { openReader } = await import(process.argv[1]);
  const document = { url: "http://a.test/", type: "text/html", maxCharacters: 1000 };
  const reader = openReader();
  await reader.read({ ...document, type: "text/plain", bytes: Buffer.from("warm") });
  const bytes = readFileSync(0);
  reader.read({ ...document, bytes });
  console.log("reading");
`;

test.skipIf(!LINUX)("processes end with their parent, even while a document keeps them busy", async () => {
  reader = openReader();
  const built = builtModule("adapters/tools/documents/reader").href;
  const parent = spawn(process.execPath, ["--input-type=module", "--eval", PARENT, built], { stdio: "pipe" });
  parent.stdin.end(multipliedElements(400, 100_000));
  const [line] = await once(parent.stdout, "data");
  expect(String(line)).toBe("reading\n");
  const children = childrenOf(parent.pid ?? expect.fail("it has not started"));
  expect(children).toHaveLength(1);
  const [child = 0] = children;
  const before = cpuSeconds(child);
  await expect.poll(() => cpuSeconds(child) - before, { interval: 10 }).toBeGreaterThan(0.1);
  parent.kill("SIGKILL");
  const atDeath = cpuSeconds(child);
  // It may wait for a CPU for any length of time, but does not go on working.
  while (isRunning(child)) {
    expect(cpuSeconds(child) - atDeath).toBeLessThan(2);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
});
