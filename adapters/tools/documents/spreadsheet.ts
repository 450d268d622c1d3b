/** @file The cells of an Excel workbook (.xlsx), sheet by sheet, one row per line. */
import { unzipSync, zipSync } from "fflate";
import readWorkbook from "read-excel-file/universal";
import { clip } from "../../../core/well-formed.ts";
import { type Document, type Extracted, MAX_SHEET_NAME, TOO_COMPLEX, unreadableBy } from "./document.ts";

/** Maximum total size of the parts that contain text, as the archive declares it: they are inflated into buffers of that size. */
const MAX_BYTES = 200e6;
/** Maximum number of entries in the archive, of any kind: images count too. */
const MAX_ENTRIES = 2000;
/** Excel's own limits on the rows and columns of a sheet. */
const [MAX_ROWS, MAX_COLUMNS] = [1_048_576, 16_384];
/** Maximum number of cells in a sheet. Empty cells before the last one count: the library creates an object per row and a value per cell. */
const MAX_CELLS = 10e6;

export async function extractSpreadsheet({ bytes, maxCharacters }: Document): Promise<Extracted> {
  try {
    const parts = inflate(bytes);
    if (!parts || !Object.values(parts).every(fitsInMemory)) return TOO_COMPLEX;
    // The library would inflate large parts all at once, each in its own thread. Uncompressed parts need none.
    const sheets = await readWorkbook(new Uint8Array(zipSync(parts, { level: 0 })).buffer);
    const text = new CappedText(maxCharacters);
    for (const [i, { sheet, data }] of sheets.entries()) {
      text.add(`${i > 0 ? "\n\n" : ""}[sheet ${i + 1} of ${sheets.length}: ${clip(sheet, MAX_SHEET_NAME)}]`);
      // The library returns no data for a chart sheet.
      for (const cells of data ?? []) {
        if (text.isFull) break;
        text.add("\n");
        for (const [column, cell] of cells.entries()) {
          if (text.isFull) break;
          if (column > 0) text.add("\t");
          text.add(textOf(cell, text.room));
        }
      }
    }
    return { title: "", text: text.toString() };
  } catch (error) {
    return unreadableBy(error, "a damaged spreadsheet");
  }
}

/** The parts that hold text, inflated one at a time. Undefined: the archive has too many entries, or they are too large. */
function inflate(bytes: Uint8Array): Record<string, Uint8Array> | undefined {
  let [size, count] = [0, 0];
  unzipSync(bytes, {
    filter({ name, originalSize }) {
      if (holdsText(name)) size += originalSize;
      count += 1;
      return false;
    },
  });
  if (size > MAX_BYTES || count > MAX_ENTRIES) return undefined;
  return unzipSync(bytes, { filter: ({ name }) => holdsText(name) });
}

/** The calculation chain lists the formula cells of all sheets, whose ranges must not be taken for one range. */
const CALCULATION_CHAIN = "xl/calcChain.xml";

const holdsText = (name: string) => (name.endsWith(".xml") || name.endsWith(".xml.rels")) && name !== CALCULATION_CHAIN;

/** Whether the cells that a part refers to lie in a range that fits in memory. A part without cell references fits. */
function fitsInMemory(part: Uint8Array): boolean {
  let [rows, columns] = [0, 0];
  const xml = Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString("latin1");
  for (const [, letters = "", digits] of xml.matchAll(/\sr\s*=\s*["']([A-Za-z]*)(\d+)["']/g)) {
    rows = Math.max(rows, Number(digits));
    columns = Math.max(columns, columnOf(letters));
  }
  return rows <= MAX_ROWS && columns <= MAX_COLUMNS && rows * columns <= MAX_CELLS;
}

/** A is 1, Z is 26, AA is 27. */
function columnOf(letters: string): number {
  let column = 0;
  for (const letter of letters.toUpperCase()) column = column * 26 + letter.charCodeAt(0) - 64;
  return column;
}

/** Text that never exceeds a maximum length, even if many cells share one long string. */
class CappedText {
  readonly #pieces: string[] = [];
  #room: number;

  constructor(maxCharacters: number) {
    this.#room = maxCharacters;
  }

  get room(): number {
    return this.#room;
  }

  get isFull(): boolean {
    return this.#room <= 0;
  }

  add(text: string): void {
    if (text === "" || this.isFull) return;
    const piece = clip(text, this.#room);
    this.#pieces.push(piece);
    this.#room -= piece.length;
  }

  toString(): string {
    return this.#pieces.join("");
  }
}

/** Clips the text, then collapses white space. A number that is too large for a date, in a cell formatted as one, becomes `Invalid Date`. */
function textOf(value: unknown, maxCharacters: number): string {
  if (value instanceof Date && !Number.isNaN(value.getTime())) return dateText(value);
  return clip(String(value ?? ""), maxCharacters).replace(/\s+/g, " ");
}

/** The library rounds down to milliseconds: nearly half of all whole minutes end a millisecond too early. */
const ROUND_TO_MILLISECONDS = 10;
/** What the library takes for the day of a time without a date. */
const NO_DAY = "1899-12-30";

/** A date, a time of day, or both, without a time zone: cells have none. */
function dateText(date: Date): string {
  const rounded = new Date(Math.round(date.getTime() / ROUND_TO_MILLISECONDS) * ROUND_TO_MILLISECONDS);
  const [day = "", time = ""] = rounded
    .toISOString()
    .replace(/(\.000)?Z$/, "")
    .split("T");
  if (day === NO_DAY) return time;
  return time === "00:00:00" ? day : `${day}T${time}`;
}
