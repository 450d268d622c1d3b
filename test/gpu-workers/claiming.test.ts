/** @file How much a worker claims, when it runs what a dead worker had claimed, and which of its own attempts it ends. */
import { expect, test } from "vitest";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { StepRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import { claimRollouts, claimUnclaimedGroup } from "../../core/training/writes.ts";
import { recordBytes } from "../../gpu-workers/identity.ts";
import { createLog } from "../../gpu-workers/log.ts";
import type { RolloutHost } from "../../gpu-workers/rollouts/attempt-rollout.ts";
import { Attempts } from "../../gpu-workers/rollouts/attempts.ts";
import { Claiming } from "../../gpu-workers/rollouts/claiming.ts";
import { newLocalGroupView } from "../../gpu-workers/rollouts/local-group-view.ts";
import { Pacing } from "../../gpu-workers/rollouts/pacing.ts";
import { type RolloutRole, type StepWork, updateView } from "../../gpu-workers/rollouts/step-work.ts";
import { readRunContext } from "../../gpu-workers/run-context.ts";
import { noTrajectoryCache } from "../../gpu-workers/training/trajectories.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { repeatingTable } from "../fakes/repeating-table.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { begin, openWorld } from "../fixtures/relay/world.ts";

const log = createLog(() => {});

/** A worker that samples step 0 while RUN points to `runStep`. All its attempts end as `runAttempt` does. */
async function openStep(changes: object, runAttempt: RolloutHost["runAttempt"], { capacity = 4, runStep = 0 } = {}) {
  const config = relayConfig({ steps: 1, questionsPerStep: 1, ...changes });
  // A store without events, so that no outcome is scored.
  const store = memoryStore();
  await begin(store, openWorld(store).functions, config);
  const run = await readRunContext(config.run, "0.0.0", store, log);
  const inFlight: string[][] = [];
  const role = {
    ...{ run, agent: "main", trajectories: noTrajectoryCache },
    membership: { id: "me", setInFlight: async (names: string[]) => inFlight.push(names) },
    watch: { current: () => ({ run: { step: runStep } }), expectChange() {} },
    observer: { refresh: async () => {}, workers: () => [], isDead: (worker: string) => worker === "dead" },
  } as unknown as RolloutRole;
  const host: RolloutHost = { run, runAttempt, hasLiveSubAgents: () => true, deadSubAgents: () => [] };
  const view = newLocalGroupView(0);
  const stop = new AbortController();
  const { signal } = stop;
  const work: StepWork = { role, host, step: 0, versions: {}, views: [view], opened: Promise.resolve(), signal };
  const attempts = new Attempts(work, { capacity, inFlight: 0, started: 0, isAlone: false }, () => {});
  const claiming = new Claiming(work, attempts, new Pacing(1));
  const round = () => claiming.round({ groups: ["q"] } as Partial<StepRecord> as StepRecord);
  const claims = async () => (await store.table.get(tableKeys.group(config.run, 0, 0)))?.["claims"];
  const group = { run: config.run, step: 0, group: 0 };
  return { store, group, work, view, attempts, claiming, round, claims, inFlight, stop };
}

/**
 * A group whose rollout 0 this worker has claimed, and whose rollout 1 a dead worker has claimed. An attempt at rollout 0 ends only when it is
 * aborted. `round` waits for the attempts that it starts.
 */
async function openClaiming(runStep = 0) {
  const started: number[] = [];
  const opened = await openStep(
    { limits: { attempts: 1 } },
    async ({ address: { rollout } }, signal) => {
      started.push(rollout);
      if (rollout === 0) await new Promise((resolve) => signal.addEventListener("abort", resolve));
      throw new MgrpoError("tool-backend", "HTTP 503", { retryable: true });
    },
    { runStep },
  );
  const { store, group, work, view, attempts } = opened;
  updateView(work, view, (await store.table.update(claimUnclaimedGroup(group, [0], "me"))).item);
  view.unclaimable.add(0);
  updateView(work, view, (await store.table.update(claimRollouts(group, [1], "dead"))).item);
  const { round: beginRound } = opened;
  const round = async () => {
    await beginRound();
    await attempts.close();
    attempts.throwFault();
  };
  return { ...opened, started, beginRound, round };
}

test("a dead worker's rollout whose outcome waits for its score is not run again, even in a group that the claiming worker began", async () => {
  const { store, group, view, started, round, claims } = await openClaiming();
  const address = { ...group, phase: "train", rollout: 1 } as const;
  const outcome = { status: "failed", address, questionId: view.record?.questionId, reason: "lost" };
  await store.objects.commit(objectKeys.outcome(address), recordBytes(outcome));
  await round();
  expect(started).toEqual([]);
  expect(await claims()).toEqual({ 0: "me", 1: "dead" });
});

test("a dead worker's rollout runs alone, while WORKER.inFlight names it, even if the response to its claim was lost", async () => {
  const { store, started, inFlight, round, claims } = await openClaiming();
  store.table.update = repeatingTable({ ...store.table }).update;
  await round();
  expect(started).toEqual([1]);
  expect(inFlight).toEqual([["0/0/1"], []]);
  expect(await claims()).toEqual({ 0: "me", 1: "me" });
});

test("a dead worker's rollout waits until the run reaches its step, and meanwhile keeps nothing of another step from starting", async () => {
  const { started, claiming, round, claims } = await openClaiming(-1);
  await round();
  expect([started, claiming.mustRunAlone]).toEqual([[], false]);
  expect(await claims()).toEqual({ 0: "me", 1: "dead" });
});

test("a dead worker's rollout waits until no other is in flight, and meanwhile nothing of another step may start", async () => {
  const { view, attempts, started, claiming, beginRound, stop } = await openClaiming();
  attempts.start(view, 0);
  await beginRound();
  expect([started, claiming.mustRunAlone]).toEqual([[0], true]);
  stop.abort();
  await attempts.close();
});

test("a worker runs as many rollouts as it has room for, even if the response to its claim was lost", async () => {
  const started: number[] = [];
  const ends: (() => void)[] = [];
  const { store, round, claims, stop, attempts } = await openStep(
    { rolloutsPerQuestion: 8 },
    ({ address: { rollout } }, signal) => {
      started.push(rollout);
      return new Promise((_, reject) => {
        ends.push(() => reject(new MgrpoError("step-closed", "over")));
        signal.addEventListener("abort", () => reject(new MgrpoError("canceled", "stopped")));
      });
    },
    { capacity: 3 },
  );
  const { update } = store.table;
  store.table.update = async (change) => {
    store.table.update = update;
    await update(change);
    return update(change);
  };
  for (let i = 0; i < 3; i++) await round();
  expect(started).toEqual([0, 1, 2]);
  expect(await claims()).toEqual({ 0: "me", 1: "me", 2: "me" });
  ends[0]?.();
  await expect.poll(() => attempts.room).toBe(1);
  await round();
  expect(started).toHaveLength(4);
  stop.abort();
  await attempts.close();
});

test("a new GROUP record ends the attempts at rollouts that are scored or that another worker has claimed, and no others", () => {
  const role = { membership: { id: "me" }, run: { store: { clock: { monotonic: () => 0 } } } };
  const work = { role, step: 0 } as unknown as StepWork;
  const view = newLocalGroupView(0);
  const attempts = [0, 1, 2].map((k) => {
    const controller = new AbortController();
    view.running.set(k, { controller, done: Promise.resolve() });
    return controller.signal;
  });
  const record = { run: "r", step: 0, group: 0, questionId: "q", rolloutsPerQuestion: 3, state: "open" };
  updateView(work, view, {
    ...record,
    claims: { 0: "me", 1: "me", 2: "other" },
    rollouts: { 1: { excluded: "infrastructure" } },
    crashes: {},
    finalized: {},
  });
  expect(attempts.map(({ aborted }) => aborted)).toEqual([false, true, true]);
});
