/**
 * @file What a model, a web page, a server or another user wrote, such as the reason of a halt or the name of a checkpoint, reaches the
 * terminal without control characters or bidirectional overrides.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openProgress } from "../../cli/compare/progress.ts";
import { reportLines } from "../../cli/suite/evaluate.ts";
import { describe as described } from "../../cli/terminal/fail.ts";
import { lineOf, problemLine, progressText } from "../../cli/watch.ts";
import { MgrpoError } from "../../core/errors.ts";
import { TINY, tinyCheckpoint } from "../engine/tiny.ts";
import { bpeFiles } from "../fixtures/tokenizers.ts";
import { chdirToProject } from "./command-line.ts";
import { printed } from "./printed.ts";
import { recordRun } from "./recorded-run.ts";
import { config } from "./records.ts";

const { isTTY } = process.stdout;
const folder = chdirToProject();
const HOSTILE = "judge said \u001b]0;owned\u0007\u009b2J\u001b[1A\rfine\u202egnp.\u2067exe\u2069\u202c \u0645\u200f";

beforeAll(async () => {
  await recordRun(folder, { reason: HOSTILE });
  process.stdout.isTTY = true;
});

afterAll(() => {
  process.stdout.isTTY = isTTY;
});

function expectPlain(text: string): void {
  expect(text).toContain("judge said  ]0;owned 2J [1A fine gnp. exe");
  expect(text).toContain("\u0645\u200f");
  for (const control of ["\u0007", "\u009b", "\r", "\u001b]", "\u001b[1A"]) expect(text).not.toContain(control);
  expect(text).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
}

test.each([
  ["runs", ["runs"]],
  ["show", ["show", config.run]],
])("`mgrpo %s` prints a hostile reason as plain text", async (_, args) => expectPlain(await printed(...args)));

test("a command that fails because the run is halted prints a hostile reason as plain text", () => {
  expectPlain(described(new MgrpoError("run-halted", `run 'tiny' halted: ${HOSTILE}`)));
});

test("a folder of runs/ with a hostile name is listed as plain text", async () => {
  mkdirSync(join(folder, "runs", HOSTILE));
  writeFileSync(join(folder, "runs", HOSTILE, "config.json"), "{}");
  expectPlain(await printed("runs"));
});

const SCORE = { n: 4, correct: 1, interval: { low: 0, high: 1 } };

test("a watched checkpoint with a hostile name is shown as plain text", () => {
  const found = { kind: "evaluation", checkpoint: HOSTILE, agent: "main", job: "greedy-1", suite: "greedy" } as const;
  expectPlain(lineOf({ ...found, ...SCORE, runs: [] }, true));
  expectPlain(progressText(HOSTILE, 2, ["greedy"], 3));
  const problem = { kind: "refused", checkpoint: HOSTILE, code: "checkpoint-damaged", message: HOSTILE } as const;
  expect(problemLine(problem, true)).not.toMatch(/[\p{Cc}\u202A-\u202E\u2066-\u2069]/u);
});

test("a category of questions with a hostile name is shown as plain text", () => {
  const spent = { usd: 0, agentsUsd: 0, judgesUsd: 0, toolsUsd: 0, toolCalls: 0, unpriced: [] };
  const report = { kind: "evaluation" as const, team: "tiny", suite: "mine", lost: [], unasked: [], reasons: [] };
  const groups = [{ ...SCORE, group: HOSTILE }];
  const lines = reportLines({ ...report, ...SCORE, runs: [], groups, spent, blocked: 0, submissions: [] }, "folder");
  expectPlain(lines.join("\n"));
});

test("the reason why a run of a comparison failed is shown as plain text", () => {
  const written: string[] = [];
  const write = (text: string) => written.push(text) > 0;
  const progress = openProgress(1, { isTTY: true, columns: 200, write } as unknown as NodeJS.WriteStream);
  progress.started("one");
  written.length = 0;
  progress.ended("one", HOSTILE);
  expectPlain(written.find((text) => text.includes("judge said")) ?? "");
});

test("`mgrpo doctor` shows the error of a model's chat template as plain text", async () => {
  const model = join(folder, "model");
  mkdirSync(model);
  const files = [
    ...tinyCheckpoint({ ...TINY, vocabulary: 400 }),
    ...bpeFiles(`{{- raise_exception(${JSON.stringify(HOSTILE)}) }}`),
  ];
  for (const [name, bytes] of files) writeFileSync(join(model, name), bytes as Uint8Array);
  const limits = { contextTokens: 16, turnTokens: 8 };
  const { columns } = process.stdout;
  process.stdout.columns = 200;
  expectPlain(await printed("doctor", "--model", model, "--set", `limits=${JSON.stringify(limits)}`));
  process.stdout.columns = columns;
  process.exitCode = undefined;
});
