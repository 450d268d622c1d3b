/**
 * @file Workbooks whose archive is refused: for its number of parts or its declared size before anything is inflated, or because a part exceeds
 * its declared size. One cell without a valid value is no reason to refuse a workbook, and neither is the calculation chain or a sheet without
 * cells. Large parts are inflated without threads.
 */
import { unzipSync, zipSync } from "fflate";
import { expect, test } from "vitest";
import { TOO_COMPLEX } from "../../../../adapters/tools/documents/document.ts";
import { extractSpreadsheet } from "../../../../adapters/tools/documents/spreadsheet.ts";
import { declareSize, manyParts, repeatedString, workbook } from "../../../fixtures/hostile-documents.ts";

const DAMAGED = { unreadable: "it is a damaged spreadsheet" };

const DOCUMENT = { url: "", type: "", maxCharacters: 5000 };
const extracted = (bytes: Uint8Array) => extractSpreadsheet({ ...DOCUMENT, bytes });

test("a workbook of more than 2,000 parts, or whose parts declare more than 200 MB, is too complex; one without sheets is damaged", async () => {
  const many = Object.fromEntries(Array.from({ length: 2001 }, (_, i) => [`${i}.xml`, new Uint8Array()]));
  expect(await extracted(zipSync(many))).toEqual(TOO_COMPLEX);
  expect(await extracted(manyParts(1, 210e6))).toEqual(TOO_COMPLEX);
  expect(await extracted(zipSync({ "a.xml": new Uint8Array() }))).toEqual(DAMAGED);
});

test("a workbook with a part that exceeds its declared size is damaged", async () => {
  const archive = workbook(`<row r="1"><c r="A1" t="inlineStr"><is><t>${"x".repeat(5000)}</t></is></c></row>`);
  expect(await extracted(archive)).toMatchObject({ text: expect.stringContaining("xxx") });
  expect(await extracted(declareSize(archive, 10))).toEqual(DAMAGED);
});

test("large parts are inflated without threads", async () => {
  const threads: unknown[] = [];
  const count = (thread: unknown) => void threads.push(thread);
  process.on("worker", count);
  const text = { text: expect.stringMatching(/^\[sheet 1 of 1: Sheet\]\nx+$/) };
  expect(await extracted(repeatedString(1, 1_000_000))).toMatchObject(text);
  process.off("worker", count);
  expect(threads).toEqual([]);
});

test("a cell shows its date, its time of day or both, exactly and without a time zone", async () => {
  const minutes = Array.from({ length: 60 }, (_, i) => 24 * i);
  const cells = minutes.flatMap((minute) =>
    [minute / 1440, 36526 + minute / 1440].map((serial) => `<c s="1"><v>${serial}</v></c>`),
  );
  const named = cells.map((cell, i) => cell.replace("<c", `<c r="${i % 2 ? "B" : "A"}${(i >> 1) + 1}"`));
  const rows = minutes.map((_, i) => `<row r="${i + 1}">${named.slice(2 * i, 2 * i + 2).join("")}</row>`);
  const two = (value: number) => String(value).padStart(2, "0");
  const lines = minutes.map((minute) => {
    const time = `${two(Math.floor(minute / 60))}:${two(minute % 60)}:00`;
    return `${time}\t2000-01-01${minute === 0 ? "" : `T${time}`}`;
  });
  const { text } = (await extractSpreadsheet({ ...DOCUMENT, bytes: workbook(rows.join("")) })) as { text: string };
  expect(text.split("\n").slice(1)).toEqual(lines);
  const moment = '<row r="1"><c r="A1" s="1"><v>36526.000001389</v></c></row>';
  expect(await extracted(workbook(moment))).toMatchObject({ text: "[sheet 1 of 1: Sheet]\n2000-01-01T00:00:00.120" });
});

test("a number that is too large for a date, in a cell that is formatted as one, leaves the other cells readable", async () => {
  const row = '<row r="1"><c r="A1" s="1"><v>36526</v></c><c r="B1" s="1"><v>1234567890</v></c></row>';
  expect(await extracted(workbook(row))).toMatchObject({ text: "[sheet 1 of 1: Sheet]\n2000-01-01\tInvalid Date" });
});

test("the calculation chain, which names cells of all sheets, does not make a workbook too large", async () => {
  const chain = '<calcChain><c r="A1000000" i="1"/><c r="AZ1" i="2"/></calcChain>';
  const parts = unzipSync(workbook('<row r="1"><c r="A1"><v>7</v></c></row>'));
  const archive = zipSync({ ...parts, "xl/calcChain.xml": Buffer.from(chain) });
  expect(await extracted(archive)).toMatchObject({ text: "[sheet 1 of 1: Sheet]\n7" });
  expect(await extracted(zipSync({ ...parts, "xl/worksheets/sheet9.xml": Buffer.from(chain) }))).toEqual(TOO_COMPLEX);
});

test("a sheet that is a chart is named, and leaves the others readable", async () => {
  const parts = unzipSync(workbook('<row r="1"><c r="A1"><v>7</v></c></row>'));
  const append = (path: string, end: string, xml: string) => {
    const text = Buffer.from(parts[path] ?? []).toString();
    parts[path] = Buffer.from(text.replace(end, `${xml}${end}`));
  };
  const type = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/chartsheet";
  const relation = `<Relationship Id="rId4" Type="${type}" Target="chartsheets/sheet1.xml"/>`;
  append("xl/workbook.xml", "</sheets>", '<sheet name="Chart" sheetId="2" r:id="rId4"/>');
  append("xl/_rels/workbook.xml.rels", "</Relationships>", relation);
  expect(await extracted(zipSync(parts))).toMatchObject({
    text: "[sheet 1 of 2: Sheet]\n7\n\n[sheet 2 of 2: Chart]",
  });
});
