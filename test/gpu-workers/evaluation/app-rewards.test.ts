/** @file The scores of an evaluation whose rollouts an app runs: the app's own rewards, unless the benchmark has rules of its own. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { scorerOf } from "../../../adapters/benchmarks/scorers.ts";
import type { Rollout } from "../../../core/recipe.ts";
import { recipeRunner } from "../../../gpu-workers/gateway/runners.ts";
import { relayApp } from "../../fixtures/relay/app.ts";
import { beginEvaluation } from "../../fixtures/relay/evaluation.ts";
import { follows } from "../../fixtures/relay/questions.ts";
import { appConfig } from "../../fixtures/relay/start.ts";

const folder = mkdtempSync(join(tmpdir(), "app-rewards-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The app's answer is wrong, and its reward 0.75. */
const app: Rollout = async (context) => {
  await relayApp(context);
  return { answer: "wrong", reward: 0.75 };
};

/** The score of the app's team on a benchmark with one question. */
async function scoreOn(benchmark: "reasoning-gym" | "jsonl", line: object) {
  const data = join(folder, `${benchmark}.jsonl`);
  writeFileSync(data, JSON.stringify(line));
  const { agents, runner } = appConfig();
  const suites = [{ name: "own", benchmark, data, runs: 1 }];
  const { evaluate } = await beginEvaluation({ agents, runner, evaluation: { suites } });
  const scorer = scorerOf({ benchmark }, undefined, () => expect.fail()) ?? { correct: () => expect.fail() };
  const { n, correct } = await evaluate({ scorerOf: () => scorer, runner: recipeRunner(app) });
  return { n, correct };
}

test("an app's own reward is the score of its answer, but not on a benchmark with rules of its own", async () => {
  const task = { question: "What follows amber?", answer: follows("amber") };
  const entry = { ...task, metadata: { source_dataset: "family_relationships", source_index: 0 } };
  expect(await scoreOn("reasoning-gym", entry)).toEqual({ n: 1, correct: 0 });
  expect(await scoreOn("jsonl", { id: "a", prompt: task.question, answer: task.answer })).toEqual({
    n: 1,
    correct: 0.75,
  });
});
