/** @file A job that is queued again after its evaluator has evaluated it, and leased by a worker that then dies. */
import { expect, test, vi } from "vitest";
import { objectKeys, tableKeys, tablePrefixes } from "../../../core/contracts/keys.ts";
import { JobRecord } from "../../../core/contracts/records.ts";
import { leaseJob, reopenJob } from "../../../core/training/job-writes.ts";
import { createLog } from "../../../gpu-workers/log.ts";
import { memoryStore } from "../../fakes/memory-store.ts";
import { relayConfig } from "../../fixtures/relay/start.ts";
import { begin, openWorld, startWorker, withEvents } from "../../fixtures/relay/world.ts";

test("a live evaluator takes over a job that it has evaluated before, when its new owner is dead", async () => {
  const log = createLog(() => {});
  const memory = memoryStore();
  const { functions } = openWorld(memory);
  const store = withEvents(memory, () => functions, log);
  const config = relayConfig({ evaluation: { suites: [{ name: "sampled" }] } });
  await begin(store, functions, config);
  const { pk } = tableKeys.run(config.run);
  const job = async () => JobRecord.parse((await memory.table.query(pk, tablePrefixes.jobs))[0]);
  const stop = new AbortController();
  const evaluating = startWorker(store, config.run, { agent: "*", roles: ["eval"] }, stop.signal, log);
  await vi.waitFor(async () => expect((await job()).state).toBe("done"), { timeout: 30_000 });
  const done = await job();
  await memory.objects.delete([objectKeys.evaluation(config.run, done.job)]);
  // Between two polls of the live one, since nothing is awaited.
  const reopened = memory.table.update(reopenJob(done));
  const leased = memory.table.update(leaseJob({ ...done, state: "queued", owner: "" }, "gone"));
  expect((await Promise.all([reopened, leased])).map(({ applied }) => applied)).toEqual([true, true]);
  await vi.waitFor(async () => expect(await job()).toMatchObject({ state: "done", n: done.n, fence: 3 }), {
    timeout: 30_000,
  });
  stop.abort();
  await evaluating;
}, 90_000);
