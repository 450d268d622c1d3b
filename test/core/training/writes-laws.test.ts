/** @file The conditional writes of groups, steps, runs, agents and workers obey their laws. */
import { expect, test } from "vitest";
import { tableKeys } from "../../../core/contracts/keys.ts";
import type {
  AgentRecord,
  RolloutScore,
  RunRecord,
  StepRecord,
  WorkerRecord,
} from "../../../core/contracts/records.ts";
import type { TableItem } from "../../../core/ports.ts";
import * as writes from "../../../core/training/writes.ts";
import { checkLaws, type Law } from "./write-laws.ts";

const group = { run: "r", step: 3, group: 1 };
const groupKey = tableKeys.group("r", 3, 1);
const score = { reward: 1, correct: 1, wellFormed: true, tokens: 7, invocations: {} };
const finalized = {
  main: { trajectories: [0], weights: [1], advantages: [0], mean: 1, std: 0, duplicated: 0, dropped: 0 },
};

const step = { run: "r", step: 3, state: "open", round: 1, groups: ["a"], sampledTokens: 0 } as unknown as StepRecord;
const stepKey = tableKeys.step("r", 3);
const run = {
  ...{ run: "r", step: 3, status: "running", reason: "before", maxHours: 2, maxUsd: 10 },
} as unknown as RunRecord;
const runKey = tableKeys.run("r");
const agent = { run: "r", agent: "main", version: 4, trainer: "w1", fence: 2, takeovers: 1 } as AgentRecord;
const agentKey = tableKeys.agent("r", "main");
const worker = {
  ...{ run: "r", worker: "w1", state: "alive", counter: 8, seenCounter: 7, seenAt: 5, inFlight: ["3/0/1"] },
} as unknown as WorkerRecord;
const workerKey = tableKeys.worker("r", "w1");
const item = (record: object): TableItem => record as TableItem;

const GROUPS: Record<string, Law> = {
  claimUnclaimedGroup: {
    change: () => writes.claimUnclaimedGroup(group, [0, 2], "w1"),
    ...{ key: groupKey, before: { state: "open", rollouts: {} }, after: { claims: { "0": "w1", "2": "w1" } } },
    ...{ repeat: "is refused", refusedWith: [{ state: "finalized" }, { claims: {} }] },
  },
  "claimRollouts, free ones": {
    change: () => writes.claimRollouts(group, [2, 3], "w2"),
    ...{ key: groupKey, before: { state: "open", claims: { "0": "w1" }, rollouts: { "1": score } } },
    after: { claims: { "0": "w1", "2": "w2", "3": "w2" } },
    repeat: "is refused",
    refusedWith: [{ state: "finalized" }, { claims: { "3": "w1" } }, { rollouts: { "2": score } }],
  },
  "claimRollouts, taken over from a dead worker": {
    change: () => writes.claimRollouts(group, [1], "w2", new Map([[1, "dead"]])),
    ...{ key: groupKey, before: { state: "open", claims: { "0": "w1", "1": "dead" }, rollouts: {} } },
    after: { claims: { "0": "w1", "1": "w2" } },
    repeat: "is refused",
    refusedWith: [{ state: "finalized" }, { claims: { "1": "w3" } }, { claims: {} }, { rollouts: { "1": score } }],
  },
  releaseClaim: {
    change: () => writes.releaseClaim(group, 1, "w2"),
    ...{ key: groupKey, before: { state: "open", claims: { "0": "w1", "1": "w2" } }, after: { claims: { "0": "w1" } } },
    ...{ repeat: "is refused", refusedWith: [{ claims: { "1": "w3" } }] },
  },
  countCrash: {
    change: () => writes.countCrash(group, 5, "w1"),
    ...{ key: groupKey, before: { state: "open", crashes: { w0: 5 } }, after: { crashes: { w0: 5, w1: 5 } } },
    ...{ repeat: "changes nothing", refusedWith: [{ state: "finalized" }] },
  },
  recordScores: {
    change: () =>
      writes.recordScores(
        group,
        new Map<number, RolloutScore>([
          [0, score],
          [2, { excluded: "disk" }],
        ]),
      ),
    ...{ key: groupKey, before: { state: "open", claims: { "0": "w1" }, rollouts: { "1": score } } },
    after: { rollouts: { "0": score, "1": score, "2": { excluded: "disk" } } },
    ...{ repeat: "is refused", refusedWith: [{ state: "finalized" }, { rollouts: { "2": score } }] },
  },
  finalizeGroupRecord: {
    change: () => writes.finalizeGroupRecord(group, finalized, 99),
    ...{
      key: groupKey,
      before: { state: "open", rollouts: {} },
      after: { state: "finalized", finalized, expiresAt: 99 },
    },
    ...{ repeat: "is refused", refusedWith: [{ state: "finalized" }] },
  },
};

const after = { ...step, groups: ["a", "b"], round: 2, curriculum: { stage: 0, drawn: [9] } } as StepRecord;
const STEPS: Record<string, Law> = {
  replaceGroups: {
    change: () => writes.replaceGroups(step, after),
    ...{ key: stepKey, before: item(step), after: { groups: ["a", "b"], round: 2, curriculum: after.curriculum } },
    ...{ repeat: "is refused", refusedWith: [{ state: "ready" }, { round: 0 }] },
  },
  "moveStep to ready": {
    change: () => writes.moveStep({ ...step, sampledTokens: 12 }, "ready"),
    ...{ key: stepKey, before: item(step), after: { state: "ready", sampledTokens: 12 } },
    ...{ repeat: "is refused", refusedWith: [{ state: "closed" }, { round: 2 }] },
  },
  "moveStep to closed": {
    change: () => writes.moveStep({ ...step, sampledTokens: 99 }, "closed"),
    ...{ key: stepKey, before: item({ ...step, state: "ready", sampledTokens: 12 }), after: { state: "closed" } },
    ...{ repeat: "is refused", refusedWith: [{ state: "open" }, { round: 2 }] },
  },
};

const RUNS: Record<string, Law> = {
  advanceRun: {
    change: () => writes.advanceRun(run),
    ...{ key: runKey, before: item(run), after: { step: 4 }, repeat: "is refused" },
    refusedWith: [{ status: "halted" }, { step: 2 }],
  },
  endRun: {
    change: () => writes.endRun("r", { code: "user", reason: "disk" }),
    ...{ key: runKey, before: item(run), after: { status: "halted", reason: "disk", haltCode: "user" } },
    ...{ repeat: "is refused", refusedWith: [{ status: "finished" }] },
  },
  "endRun, finished": {
    change: () => writes.endRun("r", "finished"),
    ...{ key: runKey, before: item(run), after: { status: "finished", reason: "" } },
    ...{ repeat: "is refused", refusedWith: [{ status: "halted" }] },
  },
  haltForLosses: {
    change: () => writes.haltForLosses("r", 3, "disk"),
    ...{
      key: runKey,
      before: item(run),
      after: { status: "halted", reason: "disk", haltCode: "losses", lossesFrom: 4 },
    },
    ...{ repeat: "is refused", refusedWith: [{ status: "finished" }] },
  },
  "haltForBudget, of a run with both limits": {
    change: () => writes.haltForBudget(run, "spent"),
    ...{ key: runKey, before: item(run), after: { status: "halted", reason: "spent", haltCode: "budget" } },
    ...{ repeat: "is refused", refusedWith: [{ status: "finished" }, { maxHours: 3 }, { maxUsd: 11 }] },
  },
  "haltForBudget, with hours alone": {
    change: () => writes.haltForBudget({ ...run, maxUsd: null }, "spent"),
    ...{ key: runKey, before: item({ ...run, maxUsd: null }), repeat: "is refused" },
    after: { status: "halted", reason: "spent", haltCode: "budget" },
    refusedWith: [{ status: "finished" }, { maxHours: 3 }],
  },
  haltFinished: {
    change: () => writes.haltFinished("r", { code: "judge-outage", reason: "judge" }),
    ...{ key: runKey, before: item({ ...run, status: "finished" }) },
    after: { status: "halted", reason: "judge", haltCode: "judge-outage" },
    ...{ repeat: "is refused", refusedWith: [{ status: "running" }] },
  },
  resumeRun: {
    change: () => writes.resumeRun("r"),
    ...{ key: runKey, before: item({ ...run, status: "halted", haltCode: "losses" }) },
    after: { status: "running", reason: "", haltCode: undefined },
    ...{ repeat: "is refused", refusedWith: [{ status: "finished" }] },
  },
  "raiseBudget, of a halted run with both limits": {
    change: () => writes.raiseBudget({ ...run, status: "halted" }, { maxHours: 3, maxUsd: 11 }),
    ...{ key: runKey, before: item({ ...run, status: "halted", haltCode: "budget" }), repeat: "is refused" },
    after: { status: "running", reason: "", haltCode: undefined, maxHours: 3, maxUsd: 11 },
    refusedWith: [{ status: "running" }, { maxHours: 3 }, { maxUsd: 11 }],
  },
  "raiseBudget, with hours alone: a missing limit stays missing": {
    change: () => writes.raiseBudget({ ...run, maxUsd: null }, { maxHours: 3, maxUsd: null }),
    ...{ key: runKey, before: item({ ...run, maxUsd: null }), repeat: "is refused" },
    after: { status: "running", reason: "", maxHours: 3 },
    refusedWith: [{ status: "halted" }, { maxHours: 3 }],
  },
};

const AGENTS: Record<string, Law> = {
  advanceAgent: {
    change: () => writes.advanceAgent(agent),
    ...{ key: agentKey, before: item(agent), after: { version: 5, takeovers: 0 }, repeat: "is refused" },
    refusedWith: [{ version: 5 }],
  },
  "claimTrainer, after a dead one: a takeover": {
    change: () => writes.claimTrainer(agent, "w2"),
    ...{ key: agentKey, before: item(agent), after: { trainer: "w2", fence: 3, takeovers: 2 }, repeat: "is refused" },
    refusedWith: [{ trainer: "w3" }, { fence: 3 }],
  },
  "claimTrainer, of an agent without one: no takeover": {
    change: () => writes.claimTrainer({ ...agent, trainer: "" }, "w2"),
    ...{ key: agentKey, before: item({ ...agent, trainer: "" }), after: { trainer: "w2", fence: 3 } },
    ...{ repeat: "is refused", refusedWith: [{ trainer: "w3" }, { fence: 3 }] },
  },
  resetTakeovers: {
    change: () => writes.resetTakeovers(agent),
    ...{ key: agentKey, before: item(agent), after: { takeovers: 0 }, repeat: "is refused" },
    refusedWith: [{ takeovers: 2 }],
  },
  releaseTrainer: {
    change: () => writes.releaseTrainer("r", "main", "w1"),
    ...{ key: agentKey, before: item(agent), after: { trainer: "" }, repeat: "is refused" },
    refusedWith: [{ trainer: "w2" }],
  },
};

const WORKERS: Record<string, Law> = {
  "heartbeat, without rollout counts": {
    change: () => writes.heartbeat("r", "w1", "alive"),
    ...{ key: workerKey, before: item(worker), after: { counter: 9 }, repeat: "counts again" },
    refusedWith: [{ state: "draining" }, { state: "dead" }],
  },
  "heartbeat, with rollout counts": {
    change: () => writes.heartbeat("r", "w1", "draining", { running: 2, quarantined: 1 }),
    ...{
      key: workerKey,
      before: item({ ...worker, state: "draining" }),
      after: { counter: 9, running: 2, quarantined: 1 },
    },
    ...{ repeat: "counts again", refusedWith: [{ state: "alive" }, { state: "dead" }] },
  },
  "setInFlight: no heartbeat": {
    change: () => writes.setInFlight("r", "w1", "alive", ["3/0/2"]),
    ...{ key: workerKey, before: item(worker), after: { inFlight: ["3/0/2"] }, repeat: "changes nothing" },
    refusedWith: [{ state: "draining" }, { state: "dead" }],
  },
  drainWorker: {
    change: () => writes.drainWorker("r", "w1"),
    ...{ key: workerKey, before: item(worker), after: { state: "draining" }, repeat: "is refused" },
    refusedWith: [{ state: "dead" }],
  },
  "markDead, alive: its rollouts in flight stay recorded": {
    change: () => writes.markDead(worker),
    ...{ key: workerKey, before: item(worker), after: { state: "dead" }, repeat: "is refused" },
    refusedWith: [{ state: "draining" }, { counter: 9 }],
  },
  "markDead, draining: its rollouts in flight are cleared": {
    change: () => writes.markDead({ ...worker, state: "draining" }),
    ...{ key: workerKey, before: item({ ...worker, state: "draining" }), after: { state: "dead", inFlight: [] } },
    ...{ repeat: "is refused", refusedWith: [{ state: "alive" }, { counter: 9 }] },
  },
  recordSeenCounter: {
    change: () => writes.recordSeenCounter(worker, 50),
    ...{ key: workerKey, before: item(worker), after: { seenCounter: 8, seenAt: 50 }, repeat: "is refused" },
    refusedWith: [{ seenCounter: 6 }],
  },
  suspectDeath: {
    change: () => writes.suspectDeath(worker, 50),
    ...{ key: workerKey, before: item(worker), after: { suspectedAt: 50 }, repeat: "changes nothing" },
    refusedWith: [{ counter: 9 }, { seenAt: 6 }],
  },
};

checkLaws({ ...GROUPS, ...STEPS, ...RUNS, ...AGENTS, ...WORKERS });

test("rollouts are written in parts of at most 50, all of them, in order", () => {
  for (const n of [0, 1, 50, 51, 100, 101]) {
    const rollouts = Array.from({ length: n }, (_, k) => k);
    const parts = writes.splitIntoWrites(rollouts);
    expect(parts.flat()).toEqual(rollouts);
    expect(parts).toHaveLength(Math.ceil(n / 50));
    for (const part of parts) expect(part.length).toBeLessThanOrEqual(50);
  }
});
