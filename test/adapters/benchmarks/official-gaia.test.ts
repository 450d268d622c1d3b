/** @file GAIA's loader and submission against the official code, on generated files: official/README.md. */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { categoriesOf } from "../../../adapters/benchmarks/categories.ts";
import { loadGaia } from "../../../adapters/benchmarks/gaia.ts";
import { scorerOf } from "../../../adapters/benchmarks/scorers.ts";
import { submissionFiles } from "../../../adapters/benchmarks/submission.ts";
import { extract } from "../../../adapters/tools/documents/extract.ts";
import type { Attachment } from "../../../core/contracts/attachment.ts";
import type { Conversation } from "../../../core/contracts/conversation.ts";
import { isMgrpoError } from "../../../core/errors.ts";
import { mean } from "../../../core/statistics.ts";
import {
  ATTACHMENTS,
  answeredRows,
  attachmentText,
  convertedParquet,
  deviationNames,
  type GaiaFile,
  gaiaFiles,
  WELCOME,
} from "./official/gaia-cases.ts";

interface Expected {
  /** The first eight digits of the hash of each file's rows; `-` if the official loader fails. */
  readonly gaiaFiles: string;
  readonly gaiaParquet: Readonly<Record<string, string>>;
  readonly gaiaSubmission: { readonly scores: string; readonly report: Readonly<Record<string, number>> };
}
/** As run_gaia.py writes it: id, question, level, answer, name and content of the file. */
type Row = [string, string, number | string, string | null, string, string];

const expected = JSON.parse(readFileSync(join(import.meta.dirname, "official/expected.json"), "utf8")) as Expected;
const folder = mkdtempSync(join(tmpdir(), "official-gaia-"));
beforeAll(() => {
  for (const name of ATTACHMENTS) writeFileSync(join(folder, name), attachmentText(name));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const digest = (rows: readonly Row[]): string => createHash("sha256").update(JSON.stringify(rows)).digest("hex");

/** What our loader makes of a file, in the form of run_gaia.py. */
async function loaded(text: string): Promise<Row[]> {
  writeFileSync(join(folder, "metadata.jsonl"), text);
  const { questions, unasked } = await loadGaia(folder, "readable", { read: extract });
  expect(unasked).toBeUndefined();
  return questions.map(({ level, answer, prompt, facts }) => {
    const { task, question, attachment } = facts as { task: string; question: string; attachment: Attachment | null };
    expect(prompt.startsWith(question)).toBe(true);
    return [task, question, level, answer, attachment?.name ?? "", attachment?.text ?? ""];
  });
}

/** The error of a file that we refuse, or its rows. */
async function outcomeOf(text: string): Promise<Row[] | string> {
  try {
    return await loaded(text);
  } catch (error) {
    if (isMgrpoError(error) && error.code === "benchmark-damaged") return error.message.replace(folder, "");
    throw error;
  }
}

interface Compared {
  readonly file: GaiaFile;
  readonly official: string;
  readonly ours: Row[] | string;
}
const compared: Compared[] = [];
beforeAll(async () => {
  const official = expected.gaiaFiles.split(" ");
  const files = gaiaFiles();
  expect(official).toHaveLength(files.length);
  for (const [i, file] of files.entries())
    compared.push({ file, official: official[i] ?? "", ours: await outcomeOf(file.text) });
}, 120_000);

/** The hash as the official loader gives it, of the rows of the level that it is asked for. */
function hashOf(rows: readonly Row[], level?: number): string {
  return digest(rows.filter((row) => level === undefined || row[2] === level)).slice(0, 8);
}

test("1,400 files of the validation split: the same rows, files and levels as from GAIA.py", () => {
  const files = compared.filter(({ file }) => file.split === "validation" && file.deviation === undefined);
  const read = files.filter(({ official }) => official !== "-");
  expect(read).toHaveLength(1400);
  expect(
    read.filter(({ file, official, ours }) => typeof ours === "string" || hashOf(ours, file.level) !== official),
  ).toEqual([]);
});

test("60 damaged files: both loaders refuse them", () => {
  const damaged = compared.filter(({ file, official }) => file.deviation === undefined && official === "-");
  expect(damaged).toHaveLength(60);
  expect(damaged.filter(({ ours }) => typeof ours !== "string")).toEqual([]);
});

test("600 files of the test split: the same rows, except that GAIA.py also yields the welcome message", () => {
  const welcome: Row = [WELCOME.task_id, WELCOME.Question, WELCOME.Level, "?", "", ""];
  const files = compared.filter(({ file }) => file.split === "test");
  expect(files).toHaveLength(600);
  const different = files.filter(
    ({ file, official, ours }) => typeof ours === "string" || hashOf([welcome, ...ours], file.level) !== official,
  );
  expect(different).toEqual([]);
});

describe("named differences, in 20 files each", () => {
  const deviating = (name: string) => {
    const files = compared.filter(({ file }) => file.deviation === name);
    expect(files).toHaveLength(20);
    return files;
  };

  const WE_READ = [
    ...["an empty line", "a byte order mark", "one JSON array", "file_name is null", "an unpaired surrogate"],
    ...["a carriage return between two keys", "the annotator's metadata is no object"],
  ];
  test.each(WE_READ)("%s: GAIA.py fails, we read the file", (name) => {
    const rows = (file: GaiaFile) => file.text.split('"task_id"').length - 1;
    expect(
      deviating(name).filter(({ file, official, ours }) => official !== "-" || ours.length !== rows(file)),
    ).toEqual([]);
  });

  const WE_REFUSE: Readonly<Record<string, RegExp>> = {
    "the level is true": /: Level: must be 1, 2 or 3$/,
    "carriage returns end the rows": /, row 1: it is not JSON$/,
    "NaN in another column": /, row 1: it is not JSON$/,
    "no question or no id": /: (Question|task_id): Too small/,
    "an id of more than 60 characters": /: task_id: Too big/,
    "an answer, question or id that is no text": /: (it has no )?(Final answer|Question|task_id): /,
    "the same id twice": /: its id '.*' is also the id of row 1$/s,
    "file_name has a folder": /: file_name '.*' is not a plain file name$/,
  };
  test.each(Object.keys(WE_REFUSE))("%s: GAIA.py reads the file, we refuse it", (name) => {
    for (const { official, ours } of deviating(name)) {
      expect(official).not.toBe("-");
      expect(ours).toMatch(WE_REFUSE[name] ?? expect.fail());
    }
  });

  const withoutLast = (text: string): string => text.replace(/[^\n]*\n$/, "");

  test("the level is text: GAIA.py leaves the row out, we read it, as Parquet has it", async () => {
    for (const { file, official, ours } of deviating("the level is text")) {
      expect(ours).toHaveLength(file.text.split("\n").length - 1);
      expect(hashOf(await loaded(withoutLast(file.text)))).toBe(official);
    }
  });

  test("there is no such level: GAIA.py leaves the row out, we refuse the file", async () => {
    for (const { file, official, ours } of deviating("there is no such level")) {
      expect(ours).toMatch(/: Level: must be 1, 2 or 3$/);
      expect(hashOf(await loaded(withoutLast(file.text)))).toBe(official);
    }
  });

  test("there are no others", () => {
    const named = [...WE_READ, ...Object.keys(WE_REFUSE), "the level is text", "there is no such level"];
    expect(named.sort()).toEqual([...deviationNames].sort());
  });
});

test("1,500 rows of a Parquet file, converted by the command in docs/benchmarks.md: the same rows as datasets reads, overall and by level", async () => {
  const text = convertedParquet();
  expect(createHash("sha256").update(text).digest("hex")).toBe(expected.gaiaParquet["converted"]);
  const rows = await loaded(text);
  expect(digest(rows)).toBe(expected.gaiaParquet["2023_all"]);
  for (const level of [1, 2, 3])
    expect(digest(rows.filter((row) => row[2] === level))).toBe(expected.gaiaParquet[`2023_level${level}`]);
});

test("the leaderboard's code gives 2,000 answers of our submission file our scores; the means, overall and by level, are those of its table", async () => {
  const answered = answeredRows();
  writeFileSync(join(folder, "metadata.jsonl"), answered.map(({ row }) => JSON.stringify(row)).join("\n"));
  const set = await loadGaia(folder, "none", undefined);
  const conversations = answered.map(({ answer }) => ({ answer, turns: [] as Conversation["turns"] }) as Conversation);
  const submitted = submissionFiles("gaia", set, [conversations]).get("submission-run1.jsonl")?.trimEnd().split("\n");
  expect(submitted?.map((line) => JSON.parse(line))).toEqual(
    answered.map(({ row, answer }) => ({ task_id: row.task_id, model_answer: answer, reasoning_trace: "" })),
  );
  const scorer = scorerOf({ benchmark: "gaia" }, undefined, () => expect.fail("no judge")) ?? expect.fail();
  const scored = new Map<string, number[]>();
  const scores: number[] = [];
  for (const [i, question] of set.questions.entries()) {
    const score = (await scorer.correct(question, conversations[i] ?? expect.fail())) as number;
    scores.push(score);
    for (const category of categoriesOf("gaia", question))
      scored.set(category, [...(scored.get(category) ?? []), score]);
  }
  const { scores: official, report } = expected.gaiaSubmission;
  expect(scores.join("")).toBe(official);
  expect(mean(scores)).toBeCloseTo(report["score"] ?? Number.NaN, 12);
  for (const level of [1, 2, 3])
    expect(mean(scored.get(`level ${level}`) ?? [])).toBeCloseTo(report[`score_level${level}`] ?? Number.NaN, 12);
});
