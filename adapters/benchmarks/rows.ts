/** @file Reads benchmark files. An error is one line that names the file and, if a row is at fault, the row; it never quotes a question or an answer. */
import { readFileSync } from "node:fs";
import type * as z from "zod";
import { jsonOrUndefined } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";

/** A row of a file. `row` counts from 1: in JSON Lines, it is the number of the line. */
export interface BenchmarkRow {
  readonly file: string;
  readonly row: number;
  readonly value: unknown;
}

export function rejectRow({ file, row }: Pick<BenchmarkRow, "file" | "row">, fault: string): never {
  throw new MgrpoError("benchmark-damaged", `${file}, row ${row}: ${fault}`);
}

/** `remedy`: for a file that is missing or cannot be read. */
export function readBenchmarkText(file: string, remedy = "docs/benchmarks.md says where the data is"): string {
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(file);
  } catch (cause) {
    const why = (cause as NodeJS.ErrnoException).code === "ENOENT" ? "no such file" : "it cannot be read";
    throw new MgrpoError("benchmark-damaged", `${file}: ${why}; ${remedy}`, { cause });
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    const parquet = new TextDecoder("latin1").decode(bytes.subarray(0, 4)) === "PAR1";
    const what = parquet ? "it is Parquet: convert it to JSON Lines (docs/benchmarks.md)" : "it is not UTF-8 text";
    throw new MgrpoError("benchmark-damaged", `${file}: ${what}`);
  }
}

/** The rows of a JSON array or of JSON Lines. Empty lines are skipped but counted. */
export function jsonRows(file: string, remedy?: string): BenchmarkRow[] {
  const text = readBenchmarkText(file, remedy);
  if (text.trimStart().startsWith("[")) {
    const values = jsonOrUndefined(text);
    if (values === undefined) throw new MgrpoError("benchmark-damaged", `${file}: it is not JSON`);
    return (values as unknown[]).map((value, i) => ({ file, row: i + 1, value }));
  }
  return text.split("\n").flatMap((line, i): BenchmarkRow[] => {
    if (line.trim() === "") return [];
    const value = jsonOrUndefined(line);
    return value === undefined ? rejectRow({ file, row: i + 1 }, "it is not JSON") : [{ file, row: i + 1, value }];
  });
}

/** Parses every row. `benchmark`: the one expected, for the message about a missing column; undefined for custom questions. */
export function parseRows<S extends z.ZodObject>(
  rows: readonly BenchmarkRow[],
  schema: S,
  benchmark?: string,
): z.infer<S>[] {
  const mismatch = benchmark === undefined ? "" : `: this is not ${benchmark}, or it is another version`;
  const required = Object.entries(schema.shape).flatMap(([name, column]) =>
    (column as z.ZodType).safeParse(undefined).success ? [] : [name],
  );
  return rows.map((at) => {
    const columns = at.value !== null && typeof at.value === "object" ? Object.keys(at.value) : [];
    const missing = required.filter((name) => !columns.includes(name));
    if (missing.length > 0) rejectRow(at, `it has no ${missing.join(", ")}${mismatch}`);
    const result = schema.safeParse(at.value);
    if (result.success) return result.data;
    const [issue] = result.error.issues;
    // An unknown key is a fault of the whole row: its path is empty.
    return rejectRow(at, [issue?.path.join("."), issue?.message].filter(Boolean).join(": "));
  });
}

/** Rejects a file without rows. */
export function requireRows(file: string, rows: readonly BenchmarkRow[]): void {
  if (rows.length === 0) throw new MgrpoError("benchmark-damaged", `${file}: it has no rows`);
}

/** Rejects a file without rows, and duplicate ids. */
export function requireDistinct(file: string, rows: readonly BenchmarkRow[], ids: readonly string[]): void {
  requireRows(file, rows);
  const first = new Map<string, number>();
  for (const [i, at] of rows.entries()) {
    const id = ids[i] ?? "";
    const before = first.get(id);
    if (before !== undefined) rejectRow(at, `its id '${id}' is also the id of row ${before}`);
    first.set(id, at.row);
  }
}
