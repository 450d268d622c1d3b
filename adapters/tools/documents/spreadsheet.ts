/** @file The cells of an Excel workbook (.xlsx), sheet by sheet, one row per line. */
import readWorkbook from "read-excel-file/universal";
import type { Extracted } from "./document.ts";

export async function extractSpreadsheet(bytes: Uint8Array): Promise<Extracted> {
  try {
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

function textOf(value: unknown): string {
  if (value instanceof Date) return value.toISOString().replace(/T00:00:00\.000Z$/, "");
  return String(value ?? "").replace(/\s+/g, " ");
}
