/** @file The plan of a step, and what the reducer does with missing groups, garbage and damaged teams: cases in addition to step.test.ts. */
import { expect, test } from "vitest";
import type { RunConfig } from "../../../core/contracts/config.ts";
import type { GroupRecord, StepRecord } from "../../../core/contracts/records.ts";
import { isMgrpoError } from "../../../core/errors.ts";
import { stream } from "../../../core/random.ts";
import { initialCurriculum } from "../../../core/training/curriculum.ts";
import { lostRollouts, tooManyLostReason } from "../../../core/training/lost-rollouts.ts";
import { advance, type StepSnapshot, teamManifest } from "../../../core/training/step.ts";
import {
  ageOf,
  groupItems,
  planStep,
  policyAt,
  replaceZeroVarianceGroups,
  trainedAgents,
  trainedBatch,
  versionAfter,
} from "../../../core/training/step-plan.ts";
import { replaceGroups } from "../../../core/training/writes.ts";
import { questions, runRecord, teamConfig } from "../../fakes/scripted-team.ts";
import { after, base, planned } from "./step-parts.ts";

const batchWithStd = (std: number) => ({
  ...{ trajectories: [0, 1], weights: [0.5], advantages: std > 0 ? [1, -1] : [0, 0] },
  ...{ mean: 0, std, duplicated: 0, dropped: 0 },
});

function group(index: number, stds: Readonly<Record<string, number>>, part: Partial<GroupRecord> = {}): GroupRecord {
  const finalized = Object.fromEntries(Object.entries(stds).map(([agent, std]) => [agent, batchWithStd(std)]));
  return {
    ...{ run: "test", step: 1, group: index, questionId: "q", rolloutsPerQuestion: 3, state: "finalized" },
    ...{ claims: {}, crashes: {}, rollouts: {}, finalized },
    ...part,
  };
}

const snapshot = (part: Partial<StepSnapshot>): StepSnapshot => ({ ...base, steps: [], ...part });

test("step 0 starts the curriculum; a later step continues it, and counts the tokens sampled before", () => {
  const config = teamConfig({ questionsPerStep: 2 });
  const first = planned(config, 0, after(undefined));
  expect(first).toMatchObject({ step: 0, state: "open", round: 0, sampledBefore: 0, curriculum: { drawn: [2] } });
  const second = planned(config, 1, after({ ...first, sampledBefore: 5, sampledTokens: 7 }));
  expect(second).toMatchObject({ step: 1, sampledBefore: 12, sampledTokens: 0, curriculum: { drawn: [4] } });
  expect(first.curriculum).not.toEqual(initialCurriculum(config));
  expect(policyAt(config, 3)).toEqual({ main: 3, searcher: 3 });
});

test("the age of a policy is the number of steps since its version, and 0 for a frozen agent", () => {
  const config = teamConfig({
    agents: { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s", trained: false } },
  });
  const step = { step: 5, policy: { main: 3, searcher: 0 } } as unknown as StepRecord;
  expect(["main", "searcher", "nobody"].map((agent) => ageOf(config, step, agent))).toEqual([2, 0, 0]);
});

test("an agent trains on its part of a group; a frozen one on nothing, though groups are finalized for it too", () => {
  const agents = { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s", trained: false } };
  const config = teamConfig({ agents });
  const finalized = group(0, { main: 1, searcher: 1 });
  expect(["main", "searcher", "nobody"].map((agent) => trainedBatch(config, finalized, agent))).toEqual([
    ...[finalized.finalized["main"], undefined, undefined],
  ]);
});

test("of agents that share a policy, only its owner publishes versions", () => {
  const agents = { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "m", policy: "of:main" } };
  expect(trainedAgents(teamConfig({ agents }))).toEqual(["main"]);
  expect(trainedAgents(teamConfig())).toEqual(["main", "searcher"]);
});

test("groupItems returns the groups that are asked for, open and empty, each with its question", () => {
  const config = teamConfig({ questionsPerStep: 2 });
  const step = planned(config, 1, after(planned(config, 0, after(undefined))));
  const [item, ...others] = groupItems(config, step, [1]);
  expect(others).toEqual([]);
  expect(item?.item).toEqual({
    ...{ run: "test", step: 1, group: 1, questionId: step.groups[1], state: "open" },
    ...{ rolloutsPerQuestion: config.rolloutsPerQuestion, crashes: {}, rollouts: {}, finalized: {} },
  });
});

test("a run ends after its last step, or once its tokens are sampled", () => {
  const config = teamConfig({ steps: 4, sampledTokens: 100 });
  const first = planned(config, 0, after(undefined));
  const isPlanned = (step: number, sampledBefore: number, sampledTokens: number) =>
    planStep(config, questions, step, after({ ...first, sampledBefore, sampledTokens })) !== undefined;
  expect([isPlanned(3, 0, 0), isPlanned(4, 0, 0), isPlanned(1, 60, 39), isPlanned(1, 60, 40)]).toEqual([
    ...[true, false, true, false],
  ]);
});

test("if evaluations come after shares of the run, each plan names the newest team that is due, by steps or by tokens", () => {
  const byShare = teamConfig({ steps: 4, evaluation: { every: 0.5, suites: [{ name: "all" }] } });
  const byTokens = { ...byShare, steps: 100, sampledTokens: 100 };
  const teamsOf = (config: RunConfig, tokens: readonly number[]) => {
    const plans: StepRecord[] = [];
    for (const [step, sampledTokens] of tokens.entries())
      plans.push({ ...planned(config, step, after(plans.at(-1))), sampledTokens });
    return plans.map(({ dueTeam }) => dueTeam);
  };
  expect(teamsOf(byShare, [1, 1, 1, 1])).toEqual([0, 2, 2, 4]);
  expect(teamsOf(byTokens, [30, 25, 20, 10])).toEqual([0, 0, 3, 3]);
  expect(planned(teamConfig({ steps: 4 }), 0, after(undefined))).not.toHaveProperty("dueTeam");
});

test("positions that a step reserved and did not use come first in the next step, unless that begins another stage of the curriculum", () => {
  const stages = [
    { fromStep: 0, levels: [1] },
    { fromStep: 2, levels: [2] },
  ];
  const settings = { questionsPerStep: 2, dynamicSampling: { rounds: 1 }, curriculum: stages };
  const config = teamConfig(settings);
  const plans: StepRecord[] = [];
  for (const step of [0, 1, 2]) plans.push(planned(config, step, after(plans.at(-1))));
  expect(plans.map(({ curriculum }) => curriculum)).toEqual([
    { stage: 0, drawn: [4, 0], reserve: [2, 3] },
    // Asks positions 2 and 3.
    { stage: 0, drawn: [6, 0], reserve: [4, 5] },
    { stage: 1, drawn: [6, 4], reserve: [2, 3] },
  ]);
});

test("step s makes version s + 1 of every trained agent", () => {
  expect([0, 6].map((step) => versionAfter({ step }))).toEqual([1, 7]);
});

test("a frozen main agent: a group fills its place if any trained agent learns from it, and replacements follow the old groups", () => {
  const agents = {
    main: { model: "m", delegates: ["searcher", "reader"], trained: false },
    ...{ searcher: { model: "s" }, reader: { model: "r" } },
  };
  const config = teamConfig({ questionsPerStep: 2, dynamicSampling: { rounds: 1 }, agents });
  const step = planned(config, 0, after(undefined));
  const some = group(0, { searcher: 0.3, reader: 0 });
  expect(replaceZeroVarianceGroups(config, questions, step, [some, some])).toEqual([]);
  const none = group(1, { searcher: 0, reader: 0 });
  const [command, ...others] = replaceZeroVarianceGroups(config, questions, step, [some, none]);
  expect(others).toEqual([]);
  const [reserved, ...left] = step.curriculum.reserve ?? [];
  const curriculum = { ...step.curriculum, reserve: left };
  // The reserve has positions in the stage's order of questions.
  const order = stream(config.seed, "curriculum", 0, 0).choose(questions.length, questions.length);
  const question = questions[order[reserved ?? -1] ?? -1]?.id ?? expect.fail("no reserve");
  const replaced = { ...step, groups: [...step.groups, question], round: 1, curriculum };
  expect(command).toEqual({ kind: "update", change: replaceGroups(step, replaced) });
});

test("a missing group of an open step is inserted before anything else", () => {
  const config = teamConfig({ questionsPerStep: 2 });
  const step = planned(config, 1, after(planned(config, 0, after(undefined))));
  const commands = advance(
    snapshot({
      config,
      steps: [step],
      complete: new Map([[1, { groups: [group(0, { main: 1 }), undefined], earlier: [] }]]),
    }),
  );
  expect(commands).toMatchObject([{ kind: "insert", items: [{ item: { group: 1 } }] }]);
  expect(commands[0]).toMatchObject({ items: { length: 1 } });
});

test("the first step is planned without a previous one", () => {
  expect(advance(snapshot({ run: runRecord({ step: 0 }) }))).toMatchObject([
    {
      first: { item: { step: 0 } },
      rest: [{ item: { group: 0 } }, { item: { group: 1 } }],
    },
  ]);
});

test("garbage: only parts that no kept manifest names are deleted; a team in the middle of the run is not enqueued as its last", () => {
  const config = teamConfig({ questionsPerStep: 2 });
  const step: StepRecord = {
    ...planned(config, 1, after(planned(config, 0, after(undefined)))),
    state: "ready",
  };
  const sha = "f".repeat(64);
  const manifest = {
    ...{ run: "test", agent: "main", version: 1, trained: true, stats: null, seconds: null },
    files: { w: { sha256: sha, bytes: 1 } },
  };
  const [cleanUp] = advance(
    snapshot({ config, steps: [step], basis: after(step), planned: false, expired: [{ manifest, kept: [] }] }),
  );
  expect(cleanUp).toMatchObject({
    kind: "parallel",
    commands: [
      { kind: "enqueue", isLast: false },
      { kind: "delete", keys: [expect.stringContaining(sha)] },
    ],
  });
  const [enqueueOnly] = advance(
    snapshot({ config, steps: [step], basis: after(step), planned: false, expired: [{ manifest, kept: [manifest] }] }),
  );
  expect(enqueueOnly).toMatchObject({ kind: "enqueue", isLast: false });
});

test("when the last step closes, it enqueues the team that it started from, which is not the run's last", () => {
  const config = teamConfig({ questionsPerStep: 2 });
  const last = config.steps - 1;
  const step = {
    ...planned(config, last, after(planned(config, 0, after(undefined)))),
    state: "closed" as const,
  };
  const manifests = new Map(["main", "searcher"].map((agent) => [agent, { sha256: "a".repeat(64) }] as const));
  const commands = advance(
    snapshot({
      config,
      steps: [step],
      basis: after(step),
      planned: false,
      run: runRecord({ step: last }),
      manifests: manifests as never,
    }),
  );
  expect(commands[0]).toMatchObject({ kind: "enqueue", key: "runs/test/teams/000002.json", isLast: false });
});

test("a team without one of its manifests is a damaged record", () => {
  expect(() => teamManifest(teamConfig(), 2, new Map())).toThrow(
    expect.toSatisfy((error) => isMgrpoError(error, "record-damaged")),
  );
});

test("exactly the tolerated share of lost rollouts does not halt the run; scored rollouts are not lost", () => {
  const config = teamConfig({ questionsPerStep: 1, rolloutsPerQuestion: 2, limits: { lostFraction: 0.1 } });
  const score = { reward: 1, correct: 1, wellFormed: true, tokens: 1, invocations: {} };
  const lost = (count: number) =>
    group(
      0,
      {},
      {
        rollouts: Object.fromEntries(
          Array.from({ length: 4 }, (_, k) => [String(k), k < count ? { excluded: "disk" } : score]),
        ),
      },
    );
  // Ten steps of 1 x 2 rollouts: 0.1 of 20 is 2.
  expect(tooManyLostReason(config, [lost(2)])).toBeUndefined();
  expect(tooManyLostReason(config, [lost(3)])).toMatch(/^3 rollouts lost/);
  expect(lostRollouts([lost(1)])).toEqual(["1/0/0: disk"]);
  const strict = teamConfig({ limits: { lostFraction: 0 } });
  expect(tooManyLostReason(strict, [lost(1)])).toMatch(/^1 rollout lost within 10 steps/);
  // With groups that dynamic sampling has added: 0.1 of 10 groups of 3 rollouts is 3.
  const more = Array.from({ length: 9 }, (_, i) => group(i + 1, {}));
  expect(tooManyLostReason(config, [...more, lost(3)])).toBeUndefined();
  expect(tooManyLostReason(config, [...more, lost(4)])).toMatch(/^4 rollouts lost .* 0\.1 of 30;/);
});
