/** @file `mgrpo mine`: which questions are hard, the file of them, the progress line, and which options are refused. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { countAnswers, showProgress } from "../../cli/mine/progress.ts";
import { hardQuestions, writeHardQuestions } from "../../cli/mine.ts";
import { duration } from "../../cli/terminal/columns.ts";
import type { EvaluationResult } from "../../core/contracts/messages.ts";
import type { Question } from "../../core/contracts/question.ts";
import { wilson } from "../../core/training/confidence-interval.ts";
import { teamConfig } from "../fakes/scripted-team.ts";
import { chdirToProject, RELAY, relaySettings } from "./command-line.ts";
import { printed } from "./printed.ts";

const folder = chdirToProject();
const question = (id: string): Question => ({
  id,
  kind: "k",
  level: 2,
  prompt: `${id}?`,
  answer: "a",
  facts: { world: 3 },
});

test("a question is hard if its share of correct answers is below the threshold; one without answers is not", () => {
  const asked = ["a", "b", "jsonl:c", "d"].map(question);
  const tallies = [
    { n: 8, correct: 2 },
    { n: 8, correct: 3 },
    { n: 8, correct: 0 },
    { n: 0, correct: 0 },
  ];
  const questions = tallies.map((tally, i) => ({ question: asked[i]?.id ?? "", kind: "k", ...tally }));
  // 2 of 8 is a quarter, 3 of 8 is more than 0.3.
  expect(hardQuestions(asked, { questions }, 0.3)).toEqual([question("a"), { ...question("jsonl:c"), id: "c" }]);
  expect(hardQuestions(asked, { questions }, 0.25).map(({ id }) => id)).toEqual(["c"]);
});

test("answers that are lost for good do not keep the file from being written", () => {
  const asked = ["a", "b"].map(question);
  const questions = [
    { n: 2, correct: 0 },
    { n: 0, correct: 0 },
  ].map((tally, i) => ({ question: asked[i]?.id ?? "", kind: "k", ...tally }));
  const result: EvaluationResult = {
    ...{ run: "eval", job: "j", team: 0, suite: "own", n: 2, correct: 0, runs: [], questions, seconds: 1 },
    ...{ interval: wilson({ n: 2, correct: 0 }), lost: ["b"], reasons: ["judge: refused"] },
  };
  const to = join(folder, "lossy.jsonl");
  const errors = vi.spyOn(console, "error").mockImplementation(() => {});
  const printed = vi.spyOn(console, "log").mockImplementation(() => {});
  try {
    writeHardQuestions(asked, result, { to, below: 0.3, samples: 2 });
    expect(errors.mock.calls).toEqual([
      [expect.stringMatching(/^1 answer lost.*judge: refused.*remove .*lossy\.jsonl/)],
    ]);
    expect(process.exitCode).toBe(1);
  } finally {
    process.exitCode = undefined;
    errors.mockRestore();
    printed.mockRestore();
  }
  expect(JSON.parse(readFileSync(to, "utf8"))).toEqual(question("a"));
  const none = () =>
    writeHardQuestions(asked.slice(1), { ...result, questions: questions.slice(1) }, { to, below: 1, samples: 2 });
  expect(none).toThrow("run the same command to retry");
});

test("if answers are missing only among the last 65 that were started, the count is at most 65 below the number started, and takes few requests", async () => {
  const inFlight = fc.array(fc.nat(64), { maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(fc.nat(20_000), inFlight, fc.nat(5000), async (started, missing, known) => {
      let requests = 0;
      const gaps = new Set(missing.map((back) => started - 1 - back));
      const head = async (key: string) => {
        requests += 1;
        return Number(key) < started && !gaps.has(Number(key)) ? 1 : undefined;
      };
      const from = Math.min(known, Math.max(0, started - 65));
      const count = await countAnswers({ head }, String, from, 20_000);
      expect(count).toBeLessThanOrEqual(started);
      expect(count).toBeGreaterThanOrEqual(started - 65);
      expect(requests).toBeLessThan(250);
    }),
  );
});

test("an answer that is still missing does not hold up the count of those after it", async () => {
  const head = async (key: string) => (key !== "0" && Number(key) < 1000 ? 1 : undefined);
  expect(await countAnswers({ head }, String, 0, 20_000)).toBe(1000);
});

test("the time left is estimated from the answers since the first poll; the time before it does not count", async () => {
  const now = vi.spyOn(performance, "now").mockReturnValue(0);
  onTestFinished(() => now.mockRestore());
  let line = "";
  const live = {
    show(text: () => string) {
      line = text();
    },
    print() {},
    close() {},
  };
  const poll = showProgress(live, "hard", teamConfig(), 100, 1);
  let stored = 0;
  const objects = { head: async (key: string) => (Number(/(\d+)\D+\d+\D*$/.exec(key)?.[1]) < stored ? 1 : undefined) };
  const job = { job: "j", state: "running", team: {} };
  const pollAt = (seconds: number) => {
    now.mockReturnValue(1000 * seconds);
    return poll({ objects } as never, [job] as never);
  };
  await pollAt(100);
  expect(line).toBe("hard: 0 of 100 answers");
  stored = 20;
  await pollAt(120);
  // 20 answers in 20 s: 80 more take 80 s.
  expect(line).toBe(`hard: 20 of 100 answers · ${duration(80)} left`);
});

const relay = ["models", "--recipe", RELAY];
const sampled = relaySettings({ name: "sampled" });

test("with --train, settings of suites apply to the suite of training questions, or are refused", async () => {
  const ask = (setting: string) => printed("mine", ...relay, "--train", "--to", "t.jsonl", "--set", setting);
  await expect(ask("evaluation.suites.0.temperature=0")).rejects.toThrow(
    "greedy runs would all be the same: set runs to 1",
  );
  const suites = '[{"name":"a"}]';
  const others = [`evaluation={"suites":${suites}}`, `evaluation.suites=${suites}`];
  for (const other of [...others, "evaluation.suites.0.runs=2", "evaluation.suites.1.skip=1"])
    await expect(ask(other)).rejects.toThrow(
      `--set ${other}: with --train, the only suite asks the training questions, as often as --samples says`,
    );
});

const gaia = `evaluation.suites=${JSON.stringify([{ name: "gaia", benchmark: "gaia", data: "gaia" }])}`;
const own = { name: "own", benchmark: "jsonl", data: "own.jsonl", skip: 5 };
const skipped = `evaluation.suites=${JSON.stringify([own])}`;
writeFileSync(join(folder, own.data), JSON.stringify({ id: "a", prompt: "a?", answer: "a" }));

const FILE_AND_RECIPE = ["--set", "questions.train=own.jsonl", "--set", "questions.heldOut=recipe"];

test.each([
  [[], "--suite <name> and --train: give one of the two"],
  [["--train", "--suite", "sampled"], "--suite <name> and --train: give one of the two"],
  [[...sampled, "--suite", "sampled"], "--suite sampled asks held-out questions, which must not be trained on"],
  [["--set", gaia, "--suite", "gaia"], "--suite gaia asks questions of benchmark gaia, which must not be trained on"],
  [["--train", "--below", "1.5"], "--below takes a number above 0 and at most 1"],
  [["--train", "--below", "0"], "--below takes a number above 0 and at most 1"],
  [["--train", "--to", "own.jsonl/c.jsonl"], "c.jsonl cannot be written: name a file that you can"],
  [["--set", skipped, "--suite", "own"], "asks nothing: it skips 5, and its set has 1 question: lower skip"],
  [["--train", "--budget-tool-calls", "9"], "has not started, so it has no budget to raise: leave out --budget-*"],
  [
    ["--train", "--set", "questions.train=own.jsonl"],
    "questions.heldOut: suite 'training' asks the held-out questions: set it to a file of them or, for the recipe's, to 'recipe'",
  ],
  [
    ["--train", ...FILE_AND_RECIPE, "--set", "evaluation.suites.0.skip=5"],
    "asks nothing: it skips 5, and its set has 1 question: lower skip",
  ],
] as const)("refused: %j", async (more, line) => {
  await expect(printed("mine", ...relay, "--to", "c.jsonl", ...more)).rejects.toThrow(line);
});
