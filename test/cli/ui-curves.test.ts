/** @file The dashboard's curves of a run. */
import { expect, test } from "vitest";
import { runView } from "../../cli/ui/run-view.ts";
import type { GroupRecord } from "../../core/contracts/records.ts";
import { type StepSummary, summarizeStep } from "../../core/monitoring/step-summary.ts";
import { curvesOf } from "../../ui/app/parts/curves.ts";
import { config, groups, manifests, step, storeOfFinishedRun } from "./records.ts";

const summaryOf = (scored: readonly GroupRecord[]) =>
  summarizeStep(config, step, scored, new Map(manifests.map((one) => [one.agent, one])), 10);

/** The curves of a run whose steps have these mean rewards of the main agent. */
async function curvesAfter(...rewards: readonly number[]) {
  const summary = summaryOf(groups);
  return curvesOfSteps(rewards.map((main, i) => ({ ...summary, step: i, reward: { ...summary.reward, main } })));
}

async function curvesOfSteps(perStep: readonly StepSummary[]) {
  const store = await storeOfFinishedRun();
  const view = await runView({
    config,
    state: "finished",
    reason: "",
    step: perStep.length,
    evaluations: [],
    folder: ".",
    summaries: async () => perStep,
    read: (read) => read(store),
  });
  return curvesOf(view);
}

test("the axis of the reward chart ends at 0 and 1, or at rewards outside them, so that none is cut off", async () => {
  const boundsAfter = async (...rewards: number[]) => (await curvesAfter(...rewards))[0]?.bounds;
  expect(await boundsAfter(0.2, 0.9)).toEqual([0, 1]);
  expect(await boundsAfter(-0.5, 1.25)).toEqual([-0.5, 1.25]);
});

test("the histogram's title says how many steps it counts", async () => {
  const titleAfter = async (...rewards: number[]) => (await curvesAfter(...rewards)).at(-1)?.title;
  expect(await titleAfter(0.5)).toBe("rollouts by invocations, newest step");
  expect(await titleAfter(0.5, 0.6)).toBe("rollouts by invocations, newest 2 steps");
});

test("a step whose rollouts were all lost has no share of correct or well-formed rollouts, rather than 0", async () => {
  const lost = groups.map((group) => ({ ...group, rollouts: { "0": { excluded: "judge: away" } }, finalized: {} }));
  const curves = await curvesOfSteps([summaryOf(groups), { ...summaryOf(lost), step: 1 }]);
  const shares = curves.find(({ title }) => title === "shares of rollouts and groups")?.lines ?? [];
  expect(shares.map(({ name, points }) => [name, points.map(([, y]) => y)])).toEqual([
    ["correct", [2 / 3, null]],
    ["well-formed", [1, null]],
    ["zero-variance groups", [0.5, 1]],
  ]);
});
