/**
 * @file Rollouts and training steps that keep crashing their workers, and rollouts whose engine thread ends: the run still ends. One process,
 * the store in memory.
 */
import { expect, onTestFinished, test } from "vitest";
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { AgentRecord, GroupRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { PolicyEngine, Store } from "../../core/ports.ts";
import { markDead } from "../../core/training/writes.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { racingClock } from "../fakes/racing-clock.ts";
import { relayEngine, relaySampling } from "../fixtures/relay/policy.ts";
import { openRun, startWorker } from "../fixtures/relay/world.ts";

const log = createLog(() => {});
const never = new AbortController().signal;
const liveness = { heartbeatSeconds: 0.05, leaseSeconds: 0.3, pollSeconds: 0.02 };

async function open() {
  const { config, store, functions } = await openRun(log, { liveness, limits: { lostFraction: 1 } });
  const stop = new AbortController();
  const searcher = startWorker(store, config.run, { agent: "searcher" }, stop.signal, log);
  const main = (engine: PolicyEngine) => startWorker(store, config.run, {}, never, log, { engineOf: () => engine });
  const runRecord = () => store.table.get(tableKeys.run(config.run));
  const close = async () => {
    stop.abort();
    await searcher.catch(() => {});
  };
  return { config, store, functions, main, runRecord, close };
}

const forever = () => new Promise<never>(() => {});

/** Whether a turn with this stream belongs to the rollout that brings down its worker. */
const isDeadly = (stream: readonly (string | number)[]) => stream.join("/").includes("sample/0/0/1/main");

/** More than in any run that ends. */
const MAX_DEATHS = 9;

async function expectOnlyDeadlyLost(store: Store, run: string): Promise<void> {
  const groups = await Promise.all([0, 1].map((group) => store.table.get(tableKeys.group(run, 0, group))));
  const [first, second] = groups.map((item) => GroupRecord.parse(item).rollouts);
  expect(first?.[1]).toEqual({ excluded: "infrastructure: its worker crashed 3 times while it ran alone" });
  for (const score of [first?.[0], second?.[0], second?.[1]]) expect(score).toHaveProperty("reward");
}

test.each<[string, string, (race: () => void) => Promise<never>]>([
  ["crashes its worker", "engine bug", () => Promise.reject(new RangeError("engine bug"))],
  [
    "makes the engine hang",
    "an engine call hangs",
    (race) => {
      race();
      return forever();
    },
  ],
])(
  "a rollout that %s every time is abandoned after three crashes while it runs alone; the others are not",
  async (_what, reason, die) => {
    const clock = racingClock();
    onTestFinished(() => clock.restore());
    const { config, store, main, close } = await open();
    const deadly = relaySampling((sample) => {
      // When the engine hangs, so do the other rollouts in flight.
      let isHung = false;
      const race = () => {
        isHung = true;
        clock.race();
      };
      return (request, signal) => {
        if (isDeadly(request.stream)) return die(race);
        return isHung ? forever() : sample(request, signal);
      };
    });
    let deaths = 0;
    for (let isOver = false; !isOver; )
      isOver = await main(deadly).then(
        () => true,
        (error: unknown) => {
          expect(String(error)).toContain(reason);
          clock.stop();
          deaths += 1;
          expect(deaths).toBeLessThan(MAX_DEATHS);
          return false;
        },
      );
    // One alongside other rollouts, then three alone.
    expect(deaths).toBe(4);
    await expectOnlyDeadlyLost(store, config.run);
    await close();
  },
);

test("a rollout during which its worker is declared dead, every time, is abandoned, too; the others are not", async () => {
  const { config, store, main, close } = await open();
  /** Declares the workers of the main agent dead, and returns whether any was alive. A heartbeat in between makes the write fail. */
  const declareDead = async () => {
    const items = await store.table.query(tableKeys.run(config.run).pk, tablePrefixes.workers);
    const alive = items.map((item) => WorkerRecord.parse(item)).filter(({ state }) => state !== "dead");
    const own = alive.filter(({ agent }) => agent === "main");
    for (const worker of own) await store.table.update(markDead(worker));
    return own.length > 0;
  };
  let deaths = 0;
  const deadly = relaySampling((sample) => async (request, signal) => {
    if (isDeadly(request.stream) && deaths++ < MAX_DEATHS) {
      while (await declareDead());
      await new Promise((resolve) => signal?.addEventListener("abort", resolve));
    }
    return sample(request, signal);
  });
  await main(deadly);
  // One alongside other rollouts, then three alone.
  expect(deaths).toBe(4);
  await expectOnlyDeadlyLost(store, config.run);
  await close();
});

test("rollouts whose engine thread ends are retried in parallel, not one after another", async () => {
  const { config, main, runRecord, close } = await open();
  const ended = new MgrpoError("worker-unavailable", "the engine thread ended", { retryable: true });
  const all = config.questionsPerStep * config.rolloutsPerQuestion;
  let [begun, inFlight, most] = [0, 0, 0];
  let meet = () => {};
  const met = new Promise<void>((resolve) => {
    meet = resolve;
  });
  const fragile = relaySampling((sample) => async (request, signal) => {
    if (begun++ < all) throw ended;
    most = Math.max(most, ++inFlight);
    // If no second one is in flight at the same time, the first waits until its limit.
    if (most > 1) meet();
    await met;
    return sample(request, signal).finally(() => inFlight--);
  });
  await main(fragile);
  expect(await runRecord()).toMatchObject({ status: "finished" });
  expect(most).toBeGreaterThan(1);
  await close();
});

test("a trainer that crashes every time keeps its claim, and the third takeover halts the run", async () => {
  const { config, store, functions, main, runRecord, close } = await open();
  const forwardBackward = () => Promise.reject(new Error("out of memory"));
  const broken: PolicyEngine = {
    ...relayEngine,
    openTrainer: async (...args) => ({ ...(await relayEngine.openTrainer(...args)), forwardBackward }),
  };
  const trainer = async () => AgentRecord.parse(await store.table.get(tableKeys.agent(config.run, "main"))).trainer;
  for (let ends = 0; (await runRecord())?.["status"] === "running"; ends++) {
    expect(ends).toBeLessThan(6);
    const end = await main(broken).catch((error: unknown) => error);
    if (!isMgrpoError(end, "run-halted")) {
      expect(String(end)).toContain("out of memory");
      expect(await trainer()).not.toBe("");
    }
    await functions.tick({ run: config.run });
  }
  expect(await runRecord()).toMatchObject({
    status: "halted",
    reason: expect.stringContaining("lost 3 times without a new version: the trainer of main; read"),
  });
  await close();
});
