/**
 * @file A step that an agent's trainer fails to train: if its numbers are not finite, the run halts; if the engine takes too long, the trainer
 * gives its claim up, so that any worker may try again. One process, the store in memory.
 */
import { expect, test, vi } from "vitest";
import { resumeInStore } from "../../cli/local/resume-in-store.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { RunRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { PolicyEngine, Store, Trainer } from "../../core/ports.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { relayEngine } from "../fixtures/relay/policy.ts";
import { openRun, recordsOf, startWorker } from "../fixtures/relay/world.ts";

const never = new AbortController().signal;
const LEASE_SECONDS = 600;

type ForwardBackward = Trainer["forwardBackward"];

/** The relay's engine, whose gradient is computed as `around` says. */
const engineWith = (around: (compute: ForwardBackward) => ForwardBackward): PolicyEngine => ({
  ...relayEngine,
  async openTrainer(...given) {
    const trainer = await relayEngine.openTrainer(...given);
    return { ...trainer, forwardBackward: around(trainer.forwardBackward) };
  },
});

/** A run of one step, and its workers. A wait of one lease ends at once, and is counted. */
async function openStep() {
  const lines: string[] = [];
  const log = createLog((line) => void lines.push(line));
  const liveness = { heartbeatSeconds: 1, leaseSeconds: LEASE_SECONDS, pollSeconds: 0.02 };
  const { config, store, functions } = await openRun(log, { liveness });
  let leases = 0;
  const sleep: Store["clock"]["sleep"] = (seconds, signal) => {
    if (seconds !== LEASE_SECONDS) return store.clock.sleep(seconds, signal);
    leases += 1;
    return store.clock.sleep(0, signal);
  };
  const quick = { ...store, clock: { ...store.clock, sleep } };
  return {
    ...{ config, store, functions },
    leases: () => leases,
    abandoned: () => lines.filter((line) => line.includes("the training step is abandoned")).length,
    run: async () => RunRecord.parse(await store.table.get(tableKeys.run(config.run))),
    version1: () => store.objects.get(objectKeys.manifest(config.run, "main", 1)),
    work: (engine = relayEngine) =>
      Promise.allSettled([
        startWorker(quick, config.run, {}, never, log, { engineOf: () => engine }),
        startWorker(quick, config.run, { agent: "searcher" }, never, log),
      ]),
  };
}

async function healthyRecords() {
  const { config, store, work } = await openStep();
  await work();
  return recordsOf(store, config);
}

test("a loss that is not finite halts the run and publishes nothing; once resumed with a sound engine, it ends as if nothing had happened", async () => {
  const { config, store, run, version1, work } = await openStep();
  const broken = engineWith((compute) => async (...batch) => ({ ...(await compute(...batch)), loss: Number.NaN }));
  const [main] = await work(broken);
  expect(main).toMatchObject({ reason: { code: "run-halted", message: expect.stringContaining("loss is NaN") } });
  expect(await run()).toMatchObject({
    ...{ status: "halted", haltCode: "untrainable" },
    reason: expect.stringMatching(/^training step: loss is NaN: lower the learning rate/),
  });
  expect(await version1()).toBeUndefined();
  await resumeInStore(store, config, await run(), {});
  await work();
  expect(await recordsOf(store, config)).toEqual(await healthyRecords());
});

test("after a training call that took too long, the worker waits one lease and trains the step again, with the same result", async () => {
  const { config, store, leases, abandoned, work } = await openStep();
  let calls = 0;
  const slow = engineWith((compute) => async (...batch) => {
    const result = await compute(...batch);
    if (calls++ === 0) throw new MgrpoError("deadline", "the engine took too long");
    return result;
  });
  await work(slow);
  expect([abandoned(), leases()]).toEqual([1, 1]);
  expect(await recordsOf(store, config)).toEqual(await healthyRecords());
});

test("a step that no attempt can train in time does not go on forever: each attempt counts as a lost trainer, and the run halts", async () => {
  const { config, functions, run, abandoned, work } = await openStep();
  const working = work(engineWith(() => () => Promise.reject(new MgrpoError("deadline", "the engine took too long"))));
  await vi.waitFor(async () => {
    await functions.tick({ run: config.run });
    expect(await run()).toMatchObject({ haltCode: "trainer-lost", reason: expect.stringContaining("main") });
  }, 60_000);
  expect(abandoned()).toBeGreaterThanOrEqual(3);
  expect((await working)[0]).toMatchObject({ reason: { code: "run-halted" } });
});
