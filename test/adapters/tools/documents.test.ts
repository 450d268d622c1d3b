/** @file Documents made to break the reader, and a reader that is closed while it reads. */
import { zipSync } from "fflate";
import { expect, test } from "vitest";
import { TOO_COMPLEX } from "../../../adapters/tools/documents/document.ts";
import { openReader } from "../../../adapters/tools/documents/reader.ts";
import { extractSpreadsheet } from "../../../adapters/tools/documents/spreadsheet.ts";

test("a workbook of thousands of parts, or of parts that would fill the memory, is not unpacked", async () => {
  const many = Object.fromEntries(Array.from({ length: 2001 }, (_, i) => [`${i}.xml`, new Uint8Array()]));
  expect(await extractSpreadsheet(zipSync(many))).toEqual(TOO_COMPLEX);
  const bomb = zipSync({ "a.xml": new Uint8Array(210e6) }, { level: 1 });
  expect(bomb.length).toBeLessThan(2e6);
  expect(await extractSpreadsheet(bomb)).toEqual(TOO_COMPLEX);
  expect(await extractSpreadsheet(zipSync({ "a.xml": new Uint8Array() }))).toEqual({
    unreadable: "it is a damaged spreadsheet",
  });
});

test("closing the reader is not reported as a fault of the document", async () => {
  const reader = openReader();
  const page = Buffer.from("<p>hello</p>");
  const reading = reader.read({ type: "text/html", url: "https://example.com/", bytes: page });
  const next = reader.read({ type: "text/html", url: "https://example.com/", bytes: page });
  const ends = Promise.allSettled([reading, next]);
  // After its thread has started.
  await new Promise((resolve) => setTimeout(resolve, 5));
  await reader.close();
  for (const end of await ends) expect(end).toMatchObject({ status: "rejected", reason: { code: "cancelled" } });
});
