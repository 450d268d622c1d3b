/** @file The step reducer, one transition at a time. Whole runs, in any order of events, are in test/functions. */
import { expect, test } from "vitest";
import { tableKeys } from "../../../core/contracts/keys.ts";
import type { StepRecord } from "../../../core/contracts/records.ts";
import { initialCurriculum } from "../../../core/training/curriculum.ts";
import { advance, repairOpen } from "../../../core/training/step.ts";
import { countsInBatch, type PlanBasis, replaceZeroVarianceGroups } from "../../../core/training/step-plan.ts";
import { advanceAgent, advanceRun, endRun, moveStep } from "../../../core/training/writes.ts";
import { questions, teamConfig } from "../../fakes/scripted-team.ts";
import { after, base, complete, config, groupOf, manifestOf, planned, run, step, step0 } from "./step-parts.ts";

const finalizedWith = (std: number) => ({
  main: {
    ...{ trajectories: [0, 1], weights: [0.5], advantages: std > 0 ? [1, -1] : [0, 0] },
    ...{ mean: 0, std, duplicated: 0, dropped: 0 },
  },
});

test("plan: the version of trained agents is the number of closed steps, of frozen ones 0; questions continue the curriculum", () => {
  const frozen = teamConfig({
    steps: 9,
    agents: { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s", trained: false } },
  });
  expect(planned(frozen, 4, after(step0))).toMatchObject({ policy: { main: 4, searcher: 0 }, trained: ["main"] });
  expect(step).toMatchObject({ policy: { main: 1, searcher: 1 }, round: 0, state: "open", curriculum: { drawn: [4] } });
  expect(initialCurriculum(config)).toEqual({ stage: 0, drawn: [0] });
  expect(new Set([...step0.groups, ...step.groups]).size).toBe(4);
});

test("plan: a stage given as a share starts once the earlier steps' tokens reach it; a replacement has its own step's level", () => {
  const staged = teamConfig({
    ...{ questionsPerStep: 2, steps: 100, sampledTokens: 1000, dynamicSampling: { rounds: 1 } },
    curriculum: [
      { from: 0, levels: [1] },
      { from: 0.5, levels: [2] },
    ],
  });
  const begin = planned(staged, 0, after(undefined));
  const following = (sampledTokens: number) => planned(staged, 1, after({ ...begin, sampledTokens }));
  const levels = (ids: readonly string[]) => ids.map((id) => questions.find((question) => question.id === id)?.level);
  const [before, begun] = [following(499), following(500)];
  expect([before.curriculum.stage, ...levels(before.groups)]).toEqual([0, 1, 1]);
  expect([begun.curriculum.stage, ...levels(begun.groups)]).toEqual([1, 2, 2]);
  // The step's own tokens do not count.
  const score = { reward: 0, correct: 0, wellFormed: true, tokens: 9, invocations: {} };
  const zeroVariance = [0, 1].map((g) => groupOf(g, { finalized: finalizedWith(0), rollouts: { "0": score } }));
  const [replace] = advance({ ...base, config: staged, steps: [before], ...complete(zeroVariance) });
  expect(replace).toMatchObject({
    change: { set: [expect.anything(), expect.anything(), [["curriculum"], { stage: 0 }]] },
  });
});

test("no step yet: inserts STEP, then its groups, and later what an interrupted tick did not insert", () => {
  const commands = advance({ ...base, steps: [], planned: false, basis: after(step0) });
  expect(commands).toMatchObject([
    {
      kind: "insert-first",
      first: { item: step },
      rest: [{ item: { group: 0, questionId: step.groups[0] } }, { item: { group: 1 } }],
    },
  ]);
  expect(repairOpen(config, step, [groupOf(0), undefined])).toMatchObject([{ items: [{ item: { group: 1 } }] }]);
});

test("an open step waits for its last group, then becomes ready", () => {
  expect(advance({ ...base, ...complete([groupOf(0), groupOf(1, { state: "open" })]) })).toEqual([]);
  expect(advance({ ...base, ...complete([groupOf(0), groupOf(1)]) })).toEqual([
    { kind: "update", change: moveStep(step, "ready") },
  ]);
  const score = { ...{ reward: 1, correct: 1, wellFormed: true, invocations: {} }, tokens: 7 };
  const scored = groupOf(1, { rollouts: { "0": score, "1": { ...score, tokens: 5 }, "2": { excluded: "disk" } } });
  const roomy = teamConfig({ questionsPerStep: 2, limits: { lostFraction: 1 } });
  expect(advance({ ...base, config: roomy, ...complete([groupOf(0), scored]) })).toEqual([
    { kind: "update", change: moveStep({ ...step, sampledTokens: 12 }, "ready") },
  ]);
});

test("dynamic sampling: a new question for each zero-variance group, in a bounded number of rounds", () => {
  const dynamic = teamConfig({ questionsPerStep: 2, dynamicSampling: { rounds: 1 } });
  const own = planned(dynamic, 1, after(planned(dynamic, 0, after(undefined))));
  const groups = [groupOf(0, { finalized: finalizedWith(0) }), groupOf(1, { finalized: finalizedWith(0.5) })];
  const [replace] = advance({ ...base, config: dynamic, steps: [own], ...complete(groups) });
  expect(replace).toMatchObject({
    change: {
      set: [
        [["groups"], expect.any(Array)],
        [["round"], 1],
        [["curriculum"], { reserve: [5] }],
      ],
    },
  });
  const [next] = advance({ ...base, config: dynamic, steps: [{ ...own, round: 1 }], ...complete(groups) });
  expect(next).toEqual({ kind: "update", change: moveStep({ ...own, round: 1 }, "ready") });
  expect(groups.map((group) => countsInBatch(dynamic, group, "main"))).toEqual([false, true]);
  expect(groups.map((group) => countsInBatch(config, group, "main"))).toEqual([true, true]);
});

test("dynamic sampling: a group counts for the agents whose own rewards differ; it fills its place if the main agent's do, or, if the main agent is frozen, any agent's", () => {
  const agents = { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s" } };
  const dynamicSampling = { rounds: 1 };
  const dynamic = teamConfig({ questionsPerStep: 2, dynamicSampling, agents });
  const groups = [
    groupOf(0, { finalized: { ...finalizedWith(0), searcher: finalizedWith(0.24).main } }),
    groupOf(1, { finalized: { ...finalizedWith(0.5), searcher: finalizedWith(0).main } }),
    groupOf(2, { finalized: finalizedWith(0.5) }),
  ];
  const counts = (agent: string) => groups.map((group) => countsInBatch(dynamic, group, agent));
  expect(counts("main")).toEqual([false, true, true]);
  expect(counts("searcher")).toEqual([true, false, false]);
  const replaced = (config: typeof dynamic) =>
    replaceZeroVarianceGroups(config, questions, step, groups.slice(0, 2)).length;
  expect(replaced(dynamic)).toBe(1);
  const frozen = { ...agents, main: { ...agents.main, trained: false } };
  expect(replaced(teamConfig({ questionsPerStep: 2, dynamicSampling, agents: frozen }))).toBe(1);
  const both = [groups[0], groups[0]].flatMap((group) => group ?? []);
  expect(
    replaceZeroVarianceGroups(
      teamConfig({ questionsPerStep: 2, dynamicSampling, agents: frozen }),
      questions,
      step,
      both,
    ),
  ).toEqual([]);
});

test("too many lost rollouts: the run is halted before the step becomes ready, so that a crash in between cannot lose the halt", () => {
  const lost = groupOf(0, { rollouts: { "0": { excluded: "disk" } } });
  const [halt, ready] = advance({ ...base, ...complete([lost, groupOf(1)]) });
  expect(halt).toMatchObject({
    change: {
      key: tableKeys.run("test"),
      set: [
        [["status"], "halted"],
        [["reason"], expect.stringMatching(/disk/)],
        [["haltCode"], "losses"],
        [["lossesFrom"], 2],
      ],
    },
  });
  expect(ready).toEqual({ kind: "update", change: moveStep(step, "ready") });
});

test("lost rollouts that have halted the run do not halt the resumed run again; those of later steps do", () => {
  // 1% of 10 steps of 2 x 35 rollouts is 7.
  const config = teamConfig({ questionsPerStep: 2, rolloutsPerQuestion: 35 });
  const losing = (count: number, of: number) => {
    const lost = Array.from({ length: count }, (_, k) => [String(k), { excluded: "disk" }] as const);
    return groupOf(0, { step: of, rollouts: Object.fromEntries(lost) });
  };
  const isHalted = (lossesFrom: number, here: number, before: number) => {
    const groups = { groups: [losing(here, 1), groupOf(1)], earlier: [losing(before, 0)] };
    const commands = advance({ ...base, config, run: { ...run, lossesFrom }, complete: new Map([[1, groups]]) });
    return commands.length === 2;
  };
  expect(isHalted(0, 1, 7)).toBe(true);
  expect(isHalted(1, 1, 7)).toBe(false);
  expect(isHalted(1, 8, 0)).toBe(true);
  // The run was halted, and the tick died before the step became ready.
  expect(isHalted(2, 8, 0)).toBe(false);
});

test("ready: cached versions follow the manifests, and only the last manifest closes the step", () => {
  const ready: StepRecord = { ...step, state: "ready" };
  const agents = ["main", "searcher"].map((agent) => ({
    run: "test",
    agent,
    version: 1,
    trainer: "",
    fence: 0,
    takeovers: 0,
  }));
  const one = new Map([["main", manifestOf("main", 2)]]);
  expect(advance({ ...base, steps: [ready], agents, manifests: one })).toEqual(
    agents.slice(0, 1).map((agent) => ({ kind: "update", change: advanceAgent(agent) })),
  );
  const both = new Map([...one, ["searcher", manifestOf("searcher", 2)] as const]);
  const caches = agents.map((agent) => ({ kind: "update", change: advanceAgent(agent) }));
  expect(advance({ ...base, steps: [ready], agents, manifests: both })).toEqual([
    { kind: "parallel", commands: caches },
    { kind: "update", change: moveStep(ready, "closed") },
    // Then, in the same tick, the commands of a closed step.
    ...advance({ ...base, steps: [{ ...ready, state: "closed" }], agents, manifests: both }),
  ]);
});

test("ready: first the evaluations of RUN's team and the deletion of expired weights, then the next step's plan, which marks both as done", () => {
  const ready: StepRecord = { ...step, state: "ready" };
  const old = manifestOf("main", 1).manifest;
  const expired = [{ manifest: { ...old, files: { w: { sha256: "f", bytes: 1 } } }, kept: [] }];
  const next = planned(config, 2, after(ready));
  expect(advance({ ...base, steps: [ready], expired, planned: false, basis: after(ready) })).toMatchObject([
    { commands: [{ kind: "enqueue", key: "runs/test/teams/000001.json" }, { kind: "delete" }] },
    { kind: "insert-first", first: { item: next }, rest: [{ item: { group: 0, step: 2 } }, {}] },
  ]);
  const last = { ...step, step: config.steps - 1, state: "ready" } as const;
  expect(
    advance({ ...base, run: { ...run, step: last.step }, steps: [last], planned: false, basis: after(last) }),
  ).toEqual([]);
});

test("closed: commits the team manifest, then advances RUN", () => {
  const closed: StepRecord = { ...step, state: "closed" };
  const manifests = new Map(["main", "searcher"].map((agent) => [agent, manifestOf(agent, 2)]));
  const commands = advance({ ...base, steps: [closed], manifests });
  expect(commands.map(({ kind }) => kind)).toEqual(["commit", "update"]);
  expect(commands[0]).toMatchObject({
    key: "runs/test/teams/000002.json",
    record: {
      team: 2,
      agents: { main: { version: 2, manifest: "runs/test/manifests/main/000002.json", sha256: "6d".repeat(32) } },
    },
  });
  expect(commands.at(-1)).toEqual({ kind: "update", change: advanceRun(run) });
  const last = { ...run, step: config.steps - 1 };
  const lastTeam = new Map(["main", "searcher"].map((agent) => [agent, manifestOf(agent, config.steps)]));
  const lastStep = { ...closed, step: last.step };
  const atLast = { run: last, steps: [lastStep], planned: false, basis: after(lastStep), manifests: lastTeam };
  expect(advance({ ...base, ...atLast }).map(({ kind }) => kind)).toEqual(["enqueue", "commit", "update"]);
  expect(() => advance({ ...base, steps: [closed] })).toThrow(
    "there is no runs/test/manifests/main/000002.json, which team 2 needs",
  );
});

test("after the last step the run is finished; a halted run does nothing", () => {
  const last = { ...run, step: 3 };
  const closed: StepRecord = { ...step, step: 2, state: "closed" };
  const finished = [
    { kind: "enqueue", key: "runs/test/teams/000003.json", isLast: true },
    { kind: "update", change: endRun("test", "finished") },
  ];
  expect(advance({ ...base, run: last, steps: [], planned: false, basis: after(closed) })).toEqual(finished);
  const longer = { ...base, config: teamConfig({ questionsPerStep: 2, steps: 9, sampledTokens: 40 }), run: last };
  const with30 = (sampledTokens: number) => after({ ...closed, sampledBefore: 30, sampledTokens });
  const next = (basis: PlanBasis) => advance({ ...longer, steps: [], planned: false, basis });
  expect(next(with30(10))).toEqual(finished);
  expect(next(with30(9))).toMatchObject([{ kind: "insert-first", first: { item: { step: 3 } } }]);
  expect(planned(longer.config, 3, with30(9)).sampledBefore).toBe(39);
  expect(advance({ ...base, run: { ...run, status: "halted" }, ...complete([groupOf(0), groupOf(1)]) })).toEqual([]);
});
