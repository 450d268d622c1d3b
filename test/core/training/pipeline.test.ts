/** @file The step reducer with overlapping steps, one transition at a time. Whole runs, in any order of events, are in test/functions. */
import { expect, test } from "vitest";
import type { StepRecord } from "../../../core/contracts/records.ts";
import { advance, type StepSnapshot } from "../../../core/training/step.ts";
import { ageOf } from "../../../core/training/step-plan.ts";
import { advanceRun, moveStep } from "../../../core/training/writes.ts";
import { teamConfig } from "../../fakes/scripted-team.ts";
import { after, base, complete, groupOf, manifestOf, planned, run } from "./step-parts.ts";

// staleness 1, 3 steps: 0 and 1 are sampled from version 0, 2 from version 1.
const stale = teamConfig({ questionsPerStep: 2, staleness: 1, algorithm: { tisCap: 2 } });
const [first, second] = (() => {
  const zero = planned(stale, 0, after(undefined));
  return [zero, planned(stale, 1, { previous: zero, sampled: undefined })] as const;
})();
const start: StepSnapshot = { ...base, config: stale, run: { ...run, step: 0 }, steps: [], planned: false };

test("staleness 1: the first two steps are planned at once, both from version 0, the third once the first is sampled", () => {
  expect(advance(start)).toMatchObject([{ kind: "insert-first", first: { item: first }, rest: [{}, {}] }]);
  const one = { ...start, steps: [first], basis: { previous: first, sampled: undefined } };
  expect(advance(one)).toMatchObject([{ kind: "insert-first", first: { item: second }, rest: [{}, {}] }]);
  expect([first.policy, second.policy]).toEqual([
    { main: 0, searcher: 0 },
    { main: 0, searcher: 0 },
  ]);
  expect(advance({ ...start, steps: [first, second], basis: { previous: second, sampled: first } })).toEqual([]);

  const ready: StepRecord = { ...first, state: "ready", sampledTokens: 7 };
  const [evaluation, insertion] = advance({
    ...{ ...start, steps: [ready, second], basis: { previous: second, sampled: ready } },
  });
  expect(evaluation).toMatchObject({ kind: "enqueue", key: "runs/test/teams/000000.json" });
  const third = { step: 2, policy: { main: 1, searcher: 1 }, sampledBefore: 7 };
  expect(insertion).toMatchObject({ kind: "insert-first", first: { item: third }, rest: [{}, {}] });
  expect(
    new Set([...first.groups, ...second.groups, ...planned(stale, 2, { previous: second, sampled: ready }).groups])
      .size,
  ).toBe(6);
});

test("staleness 1: the later step may be sampled first, but the earlier one is trained and closed first", () => {
  const both = { ...start, steps: [first, second], basis: { previous: second, sampled: first } };
  const groups = [groupOf(0, { step: 1 }), groupOf(1, { step: 1 })];
  expect(advance({ ...both, ...complete(groups) })).toEqual([{ kind: "update", change: moveStep(second, "ready") }]);
  const sampled: StepRecord = { ...second, state: "ready" };
  const manifests = new Map(["main", "searcher"].map((agent) => [agent, manifestOf(agent, 1)]));
  expect(advance({ ...both, steps: [first, sampled], manifests })).toEqual([]);
  // The versions close only the first step, once it is sampled.
  const ready: StepRecord = { ...first, state: "ready" };
  const closing = advance({ ...both, steps: [ready, sampled], planned: true, manifests });
  expect(closing).toMatchObject([
    { change: moveStep(ready, "closed") },
    { kind: "commit", key: "runs/test/teams/000001.json" },
    { change: advanceRun(both.run) },
  ]);
  // No later plan queues the evaluations of team RUN.step, so closing the step does: here team 2, whose weights step 2 trains.
  const last: StepRecord = { ...sampled, step: 2 };
  const atEnd = { ...both, run: { ...run, step: 2 }, basis: { previous: last, sampled } };
  expect(advance({ ...atEnd, steps: [last] })).toEqual([]);
  const lastTeam = new Map(["main", "searcher"].map((agent) => [agent, manifestOf(agent, 3)]));
  const closed = advance({ ...atEnd, steps: [{ ...last, state: "closed" }], manifests: lastTeam });
  expect(closed).toMatchObject([
    { kind: "enqueue", key: "runs/test/teams/000002.json", isLast: false },
    { kind: "commit", key: "runs/test/teams/000003.json" },
    { change: advanceRun(atEnd.run) },
  ]);
});

test("the age of rollouts is at most `staleness` for a trained agent, and 0 for a frozen one", () => {
  const agents = { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s", trained: false } };
  const halfFrozen = teamConfig({ agents, steps: 9, staleness: 2, algorithm: { tisCap: 2 } });
  const ages = [0, 1, 2, 3, 8].map((number) => {
    const record = planned(halfFrozen, number, after(undefined));
    return ["main", "searcher"].map((agent) => ageOf(halfFrozen, record, agent));
  });
  expect(ages).toEqual([
    [0, 0],
    [1, 0],
    [2, 0],
    [2, 0],
    [2, 0],
  ]);
});
