/** @file The cells of an Excel workbook (.xlsx), sheet by sheet, one row per line. */
import { unzipSync } from "fflate";
import readWorkbook from "read-excel-file/universal";
import { type Extracted, TOO_COMPLEX } from "./document.ts";

/** Limit on the declared size of all parts. They are unpacked into buffers, which no heap limit covers. */
const MAX_BYTES = 200e6;
/** Each large part is unpacked in its own thread. */
const MAX_PARTS = 2000;

export async function extractSpreadsheet(bytes: Uint8Array): Promise<Extracted> {
  try {
    if (!isWithinLimits(bytes)) return TOO_COMPLEX;
    const sheets = await readWorkbook(new Uint8Array(bytes).buffer);
    const texts = sheets.map(({ sheet, data }, i) => {
      const rows = data.map((cells) => cells.map(textOf).join("\t"));
      return [`[sheet ${i + 1} of ${sheets.length}: ${sheet}]`, ...rows].join("\n");
    });
    return { title: "", text: texts.join("\n\n") };
  } catch {
    return { unreadable: "it is a damaged spreadsheet" };
  }
}

function isWithinLimits(bytes: Uint8Array): boolean {
  let [size, parts] = [0, 0];
  unzipSync(bytes, {
    filter({ originalSize }) {
      size += originalSize;
      parts += 1;
      return false;
    },
  });
  return size <= MAX_BYTES && parts <= MAX_PARTS;
}

function textOf(value: unknown): string {
  if (value instanceof Date) return value.toISOString().replace(/T00:00:00\.000Z$/, "");
  return String(value ?? "").replace(/\s+/g, " ");
}
