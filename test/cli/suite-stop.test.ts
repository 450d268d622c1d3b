/** @file Ctrl-C before an evaluation is complete, or while its workers are exiting after that; the folder in which an evaluation is kept. */
import { basename, join } from "node:path";
import { expect, test, vi } from "vitest";
import { evaluateAndKeep } from "../../cli/suite/evaluate.ts";
import type { EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { teamConfig } from "../fakes/scripted-team.ts";

vi.mock("../../cli/local/preflight.ts", () => ({ preflightEvaluation: async () => new Map() }));

/** Whether the suite is done when Ctrl-C comes. */
let isDone = true;
vi.mock("../../cli/local/evaluate-team.ts", async (original) => ({
  ...(await original<typeof import("../../cli/local/evaluate-team.ts")>()),
  async evaluateInFolder(...given: readonly unknown[]) {
    const onDone = given[5] as () => Promise<void>;
    if (isDone) await onDone();
    process.emit("SIGINT");
    return isDone;
  },
}));

async function evaluated(target = "any") {
  const config = teamConfig({ evaluation: { suites: [{ name: "all" }] } });
  const [suite] = config.evaluation.suites;
  const errors = vi.spyOn(console, "error").mockImplementation(() => {});
  const onDone = vi.fn();
  try {
    const questions = { train: [], heldOut: [] };
    await evaluateAndKeep(target, { config, suite: suite as EvaluationSuite }, questions, "results", {
      raised: {},
      onDone,
    });
    return { done: onDone.mock.calls.length, errors: errors.mock.calls.flat(), exitCode: process.exitCode };
  } finally {
    process.exitCode = undefined;
    errors.mockRestore();
  }
}

test("a complete evaluation is not reported as stopped; an incomplete one is, and is kept to be resumed", async () => {
  expect(await evaluated()).toEqual({ done: 1, errors: [], exitCode: undefined });
  isDone = false;
  const stopped = [expect.stringMatching(/^stopped; answers so far are kept in .*; run the same command to resume$/)];
  expect(await evaluated()).toEqual({ done: 0, errors: stopped, exitCode: 130 });
});

test("an evaluation of the team in this folder is kept under this folder's name, not in a hidden folder", async () => {
  isDone = false;
  const { errors } = await evaluated(".");
  expect(errors).toEqual([expect.stringContaining(join("results", `${basename(process.cwd())}-all-`))]);
});
