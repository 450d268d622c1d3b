/**
 * @file xbench-DeepSearch (github.com/xbench-ai/xbench-evals, data/DeepSearch-*.csv): every prompt and answer is encrypted with the
 * canary of its row. They stay encrypted here: each is decrypted only to check that decryption works.
 */
import { parse as parseCsv } from "csv-parse/sync";
import * as z from "zod";
import { decrypt } from "../../core/contracts/encryption.ts";
import type { SuiteQuestions } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import { type BenchmarkRow, parseRows, readBenchmarkText, rejectRow, requireDistinct } from "./rows.ts";

const XbenchTask = z.object({
  id: z.string().min(1).max(40),
  prompt: z.string().min(1),
  answer: z.string().min(1),
  canary: z.string().min(1),
});

/** The canary of the first version, 2505, does not include the version. */
const CANARY = /canary GUID xbench-DeepSearch(?:-(\d+))?:[0-9a-f-]{36}$/;
const FIRST_VERSION = "2505";

export function loadXbench(file: string): SuiteQuestions {
  const rows = csvRows(file);
  const tasks = parseRows(rows, XbenchTask, "xbench-DeepSearch");
  requireDistinct(
    file,
    rows,
    tasks.map(({ id }) => id),
  );
  const canary = tasks[0]?.canary ?? "";
  const questions = tasks.map((task, i) => {
    const at = { file, row: i + 1 };
    const match = CANARY.exec(task.canary);
    if (!match)
      rejectRow(at, "its canary is not xbench-DeepSearch's: this is another benchmark, or another version of it");
    if (task.canary !== canary) rejectRow(at, "its canary differs from row 1's: two versions in one file");
    for (const column of ["prompt", "answer"] as const) requireDecryptable(at, column, task[column], canary);
    const version = match[1] ?? FIRST_VERSION;
    const { id, prompt, answer } = task;
    return { id: `xbench-${version}:${id}`, kind: `DeepSearch-${version}`, level: 1, prompt, answer, facts: { id } };
  });
  return { questions, canary };
}

function requireDecryptable(
  at: Pick<BenchmarkRow, "file" | "row">,
  column: string,
  encrypted: string,
  canary: string,
): void {
  try {
    if (decrypt(encrypted, canary).trim() !== "") return;
  } catch (error) {
    rejectRow(at, `its ${column} cannot be decrypted: ${(error as Error).message}`);
  }
  rejectRow(at, `its ${column} is empty`);
}

/** Rows are numbered from 1, without the header. */
function csvRows(file: string): BenchmarkRow[] {
  const text = readBenchmarkText(file);
  try {
    const values: unknown[] = parseCsv(text, { columns: true, skip_empty_lines: true });
    return values.map((value, i) => ({ file, row: i + 1, value }));
  } catch (error) {
    const { lines, code } = error as { lines?: number; code?: string };
    throw new MgrpoError("benchmark-damaged", `${file}, line ${lines ?? 1}: it is not CSV (${code ?? "unreadable"})`);
  }
}
