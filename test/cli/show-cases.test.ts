/** @file The case studies of a run: which questions count as improved or worsened, and which rollouts are shown. */
import { expect, test } from "vitest";
import type { HeldOutRollout } from "../../cli/held-out-scores.ts";
import { studyTree } from "../../cli/show/cases.ts";
import { finishedRun, question } from "./records.ts";

const { outcome } = finishedRun;
if (outcome.status !== "finished") throw new Error("the rollout in records.ts is not finished");
const { conversation } = outcome;

/** A rollout whose one check passes if its answer is `yes`. */
const rollout = (id: string, answer: string): HeldOutRollout => ({
  question: question(id),
  conversation: { ...conversation, answer },
  invocations: new Map(),
});
const study = {
  name: "says yes",
  expected: "the answer is yes",
  checks: (_: unknown, { conversation: { answer } }: Pick<HeldOutRollout, "conversation">) => [answer === "yes"],
};

test("all rollouts decide whether a question improved or worsened, and the study's share; only its first rollout before training and its first after are shown", () => {
  const before = [rollout("q1", "no"), rollout("q1", "yes"), rollout("q2", "no"), rollout("q2", "yes")];
  const after = [rollout("q1", "yes"), rollout("q1", "no"), rollout("q2", "no"), rollout("q2", "no")];
  const { tags, children } = studyTree(study, before, after, {});
  expect(tags.map(({ text }) => text)).toEqual(["50% → 25%", "better on 0 questions, worse on 1"]);
  const answers = children.map((pair) => pair.children.map((side) => side.children.at(-1)?.tags[0]?.text));
  expect(answers).toEqual([
    ["no", "yes"],
    ["no", "no"],
  ]);
});
