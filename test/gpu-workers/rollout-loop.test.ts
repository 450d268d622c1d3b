/** @file How a worker handles errors of its rollouts: which count, which are retried, which end the worker, and which claims it keeps. */
import { expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import { type StepRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import { claimUnclaimedGroup } from "../../core/training/writes.ts";
import { type RunSnapshot, type StepWatch, watchSteps } from "../../gpu-workers/liveness/watch.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { attemptRollout, type RolloutHost } from "../../gpu-workers/rollouts/attempt-rollout.ts";
import { Attempts } from "../../gpu-workers/rollouts/attempts.ts";
import { newLocalGroupView } from "../../gpu-workers/rollouts/local-group-view.ts";
import { runRollouts } from "../../gpu-workers/rollouts/rollout-loop.ts";
import type { RolloutPlan } from "../../gpu-workers/rollouts/rollout-plan.ts";
import { beginStep, type RolloutRole, type StepWork, updateView } from "../../gpu-workers/rollouts/step-work.ts";
import { readRunContext } from "../../gpu-workers/run-context.ts";
import { noTrajectoryCache } from "../../gpu-workers/training/trajectories.ts";
import { levelsConfig } from "../fixtures/relay/levels.ts";
import { openRun } from "../fixtures/relay/world.ts";

const log = createLog(() => {});
const never = new AbortController().signal;
const question = { id: "q", kind: "k", level: 1, prompt: "p", answer: "a", facts: {} };

/**
 * Attempts one rollout of a team whose sub-agent has no live worker; returns its outcome, and the pauses after failures. The attempts that fail
 * with `late` have called the sub-agent. `deaths` has the indices of the attempts in which a worker of the sub-agent dies.
 */
async function attemptWithoutSubAgent(failures: readonly MgrpoError[], deaths: readonly number[] = []) {
  const { config, store } = await openRun(log, { limits: { attempts: 2 } });
  const read = await readRunContext(config.run, "0.0.0", store, log);
  const pauses: number[] = [];
  const clock = { ...store.clock, sleep: async (seconds: number) => void pauses.push(seconds) };
  const run = { ...read, store: { ...store, clock } };
  const pending = [...failures];
  const dead: string[] = ["long ago"];
  const runAttempt: RolloutHost["runAttempt"] = async ({ unanswered }) => {
    const attempt = failures.length - pending.length;
    if (deaths.includes(attempt)) dead.push(`in ${attempt}`);
    const failure = pending.shift() ?? expect.fail("one attempt too many");
    if (failure === late) unanswered?.set("0", "searcher");
    throw failure;
  };
  const address = { run: config.run, phase: "train", step: 0, group: 0, rollout: 0 } as const;
  const hasLiveSubAgents = (agents: Iterable<string> = ["searcher"]) => [...agents].length === 0;
  const host = { run, runAttempt, hasLiveSubAgents, deadSubAgents: () => [...dead] };
  const outcome = await attemptRollout(host, { address, question } as unknown as RolloutPlan, never, () => true);
  return { outcome, pauses };
}

const late = new MgrpoError("deadline", "no live worker in time");
const broken = new MgrpoError("tool-backend", "HTTP 503", { retryable: true });

test("without a live worker of a sub-agent, failures that have nothing to do with it still count", async () => {
  const { outcome } = await attemptWithoutSubAgent([broken, late, broken]);
  expect(outcome).toMatchObject({ status: "failed", reason: "infrastructure, 2 attempts: HTTP 503" });
});

test("without a live worker of a sub-agent, an attempt that runs out of time counts if it waits for no sub-agent", async () => {
  const hung = new MgrpoError("deadline", "tool 'search' took more than limits.toolSeconds 300", { retryable: true });
  const { outcome } = await attemptWithoutSubAgent([hung, late, hung]);
  expect(outcome).toMatchObject({
    status: "failed",
    reason: expect.stringMatching(/^infrastructure, 2 attempts: tool/),
  });
});

test("an agent counts as live only if the agents below it do too", () => {
  const config = levelsConfig();
  const serving = (...names: string[]) => {
    const workers = names.map((agent) => ({ agent, state: "alive", url: "http://a", roles: ["rollout"] }));
    const watch = { until: () => new Promise(() => {}) };
    const role = { run: { config }, watch, observer: { workers: () => workers } } as unknown as RolloutRole;
    const { host } = beginStep(role, { step: 0, policy: {}, groups: [] as string[] } as StepRecord, never);
    return [undefined, [], ["searcher"], ["reader"]].map((agents) => host.hasLiveSubAgents(agents));
  };
  expect(serving("searcher", "reader")).toEqual([true, true, true, true]);
  expect(serving("searcher")).toEqual([false, true, false, false]);
  expect(serving("reader")).toEqual([false, true, false, true]);
});

test("`deadSubAgents` lists the dead workers of the main agent's sub-agents at all levels, and no other worker", () => {
  const workers = ["main", "searcher", "reader"].flatMap((agent) =>
    ["alive", "dead"].map((state) => ({ worker: `${agent} ${state}`, agent, state })),
  );
  const watch = { until: () => new Promise(() => {}) };
  const observer = { workers: () => workers };
  const role = { run: { config: levelsConfig() }, watch, observer } as unknown as RolloutRole;
  const { host } = beginStep(role, { step: 0, policy: {}, groups: [] as string[] } as StepRecord, never);
  expect(host.deadSubAgents()).toEqual(["searcher dead", "reader dead"]);
});

test("an attempt that fails because workers of a sub-agent died counts, even before another worker has replaced them", async () => {
  const died = new MgrpoError("worker-unavailable", "2 workers died");
  const { outcome } = await attemptWithoutSubAgent([died, died]);
  expect(outcome).toMatchObject({ status: "failed", reason: "infrastructure, 2 attempts: 2 workers died" });
});

test("after a death, an attempt that ends for lack of a worker does not count", async () => {
  const died = new MgrpoError("worker-unavailable", "a worker died");
  const { outcome } = await attemptWithoutSubAgent([died, late, late, late, broken]);
  expect(outcome).toMatchObject({ status: "failed", reason: "infrastructure, 2 attempts: HTTP 503" });
});

test("an attempt that runs out of time counts if a worker of a sub-agent died meanwhile, even if no other has replaced it", async () => {
  const { outcome, pauses } = await attemptWithoutSubAgent([late, late, late, late], [1, 3]);
  expect(outcome).toMatchObject({ status: "failed", reason: expect.stringMatching(/^infrastructure, 2 attempts: /) });
  expect(pauses).toHaveLength(3);
});

test("failures for lack of a worker do not count, but the pauses after them grow", async () => {
  const { pauses } = await attemptWithoutSubAgent([late, late, late, late, late, late, broken, broken]);
  expect(pauses).toEqual([0.4, 0.8, 1.6, 3.2, 5, 5, 5]);
});

test("a fault of an attempt ends the worker, even if the run halts before the next round", async () => {
  const { config, store } = await openRun(log);
  const run = await readRunContext(config.run, "0.0.0", store, log);
  const real = watchSteps(run, "main");
  let seen: RunSnapshot = await real.refresh();
  const until: StepWatch["until"] = (pick, signal) =>
    new Promise((resolve, reject) => {
      const found = pick(seen);
      if (found !== undefined) return resolve(found);
      signal.addEventListener("abort", () => reject(new MgrpoError("canceled", "stopping")), { once: true });
    });
  let fail = () => {};
  const failed = new Promise<void>((resolve) => {
    fail = resolve;
  });
  // The attempt fails once the round has ended, and the run halts at the same moment.
  const pause = async () => {
    setTimeout(fail);
    await failed;
    await new Promise((resolve) => setTimeout(resolve));
    seen = { ...seen, run: { ...seen.run, status: "halted" } };
  };
  const searcher = WorkerRecord.parse({
    ...{ run: config.run, worker: "s", agent: "searcher", roles: ["rollout"], url: "http://s", state: "alive" },
    ...{ counter: 1, seenCounter: -1, seenAt: 0, release: run.release, inFlight: [] },
  });
  const role = {
    ...{ run, agent: "main", trajectories: noTrajectoryCache, capacity: 4 },
    runAttempt: () => failed.then(() => Promise.reject(new RangeError("a bug"))),
    membership: { id: "m", setInFlight: async () => {}, setRolloutCounter() {} },
    watch: { ...real, until, pause, current: () => seen, expectChange() {}, refresh: async () => seen },
    observer: { refresh: async () => {}, workers: () => [searcher], isDead: () => false },
  } as unknown as RolloutRole;
  await expect(runRollouts(role, AbortSignal.timeout(60_000))).rejects.toThrow("a bug");
});

/**
 * A group of step 0 of which this worker has claimed rollouts 0 and 1. Every attempt fails: with `failure`, unless the test sets another error for
 * the rollout in `failures`.
 */
async function openAttempts(failure: MgrpoError) {
  const { config, store } = await openRun(log, { limits: { attempts: 3 } });
  const run = { ...(await readRunContext(config.run, "0.0.0", store, log)), question: () => question };
  /** Each write of WORKER.inFlight: how many rollouts it names, and how many may start meanwhile. */
  const writes: [named: number, room: number][] = [];
  const role = {
    ...{ run, agent: "main", trajectories: noTrajectoryCache, watch: { expectChange() {} } },
    membership: {
      id: "m",
      setInFlight: async (rollouts: readonly string[]) => void writes.push([rollouts.length, attempts.room]),
    },
  } as unknown as RolloutRole;
  const failures = { 0: failure, 1: failure as Error, count: 0 };
  const host: RolloutHost = {
    run,
    runAttempt: ({ address: { rollout } }) => {
      failures.count += 1;
      return Promise.reject(rollout === 0 ? failures[0] : failures[1]);
    },
    hasLiveSubAgents: () => true,
    deadSubAgents: () => [],
  };
  const view = newLocalGroupView(0);
  const work: StepWork = { role, host, step: 0, versions: {}, views: [view], opened: Promise.resolve(), signal: never };
  const attempts: Attempts = new Attempts(work, { capacity: 4, inFlight: 0, started: 0, isAlone: false }, () => {});
  const address = { run: config.run, step: 0, group: 0 };
  updateView(work, view, (await store.table.update(claimUnclaimedGroup(address, [0, 1], "m"))).item);
  const claims = async () => (await store.table.get(tableKeys.group(config.run, 0, 0)))?.["claims"];
  return { attempts, view, writes, failures, claims };
}

test("after a rollout that ran alone, nothing starts until WORKER.inFlight no longer names it", async () => {
  const { attempts, view, writes } = await openAttempts(broken);
  attempts.startAlone(view, 0);
  await attempts.close();
  attempts.throwFault();
  expect(writes).toEqual([
    [1, 0],
    [0, 0],
  ]);
  expect(attempts.room).toBe(4);
});

test("a worker that leaves a step gives back its claim on a rollout that waits to run alone", async () => {
  const { attempts, view, claims } = await openAttempts(new MgrpoError("worker-unavailable", "2 workers died"));
  attempts.start(view, 0);
  await view.running.get(0)?.done;
  expect([...view.quarantined]).toEqual([0]);
  expect(await claims()).toEqual({ 0: "m", 1: "m" });
  await attempts.close();
  attempts.throwFault();
  expect(await claims()).toEqual({ 1: "m" });
});

test("a worker that one rollout crashes keeps its claim on another that waits to run alone: a released rollout could crash the next worker", async () => {
  const { attempts, view, failures, claims } = await openAttempts(
    new MgrpoError("worker-unavailable", "2 workers died"),
  );
  failures[1] = new RangeError("a bug");
  for (const k of [0, 1]) attempts.start(view, k);
  await attempts.close();
  expect(() => attempts.throwFault()).toThrow("a bug");
  expect(await claims()).toEqual({ 0: "m", 1: "m" });
});

test("a rollout waits to run alone after two of its attempts fail because an engine's thread ended", async () => {
  const ended = new MgrpoError("worker-unavailable", "the engine thread ended", { retryable: true });
  const { attempts, view, failures } = await openAttempts(ended);
  attempts.start(view, 0);
  await view.running.get(0)?.done;
  expect([...view.quarantined]).toEqual([0]);
  expect(failures.count).toBe(2);
});
