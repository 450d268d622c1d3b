/** @file A PDF or workbook that does not fit in memory is too complex, not damaged. So is a PDF that is nested too deeply. */
import { expect, test } from "vitest";
import { TOO_COMPLEX } from "../../../../adapters/tools/documents/document.ts";
import { extractPdf } from "../../../../adapters/tools/documents/pdf.ts";
import { extractSpreadsheet } from "../../../../adapters/tools/documents/spreadsheet.ts";
import { workbook } from "../../../fixtures/hostile-documents.ts";
import { pdfOf } from "../../../world/pdf.ts";

/** Changes the bytes in place: `subarray` and iteration throw the error of a failed allocation. */
function withoutRoom(bytes: Uint8Array): Uint8Array {
  const value = () => {
    throw new RangeError("Array buffer allocation failed");
  };
  return Object.defineProperties(bytes, { subarray: { value }, [Symbol.iterator]: { value } });
}

test.each([
  ["PDF", extractPdf, pdfOf(["text"])],
  ["workbook", extractSpreadsheet, workbook('<row r="1"><c r="A1"><v>7</v></c></row>')],
] as const)("a %s that does not fit in memory is too complex", async (_, extract, bytes) => {
  expect(await extract({ url: "", type: "", bytes: withoutRoom(bytes), maxCharacters: 1000 })).toEqual(TOO_COMPLEX);
});

test("a PDF whose page is nested too deeply is too complex, although pdf.js wraps the RangeError", async () => {
  const depth = 100_000;
  const nested = `/Nested ${"[".repeat(depth)}${"]".repeat(depth)} /MediaBox`;
  const bytes = Buffer.from(pdfOf(["text"]).toString("latin1").replace("/MediaBox", nested), "latin1");
  expect(await extractPdf({ url: "", type: "", bytes, maxCharacters: 1000 })).toEqual(TOO_COMPLEX);
});
