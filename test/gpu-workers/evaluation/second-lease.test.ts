/** @file Two evaluators that lease a job at the same time: the second leaves it to the first while that one lives. */
import { expect, test, vi } from "vitest";
import { tableKeys, tablePrefixes } from "../../../core/contracts/keys.ts";
import { WorkerRecord } from "../../../core/contracts/records.ts";
import { leaseJob } from "../../../core/training/job-writes.ts";
import { markDead } from "../../../core/training/writes.ts";
import { readRunContext } from "../../../gpu-workers/run-context.ts";
import { beginEvaluation } from "../../fixtures/relay/evaluation.ts";

test("an evaluator whose lease on a job comes second leaves the job to the worker whose lease came first, until that one dies", async () => {
  const liveness = { heartbeatSeconds: 0.05, leaseSeconds: 600, pollSeconds: 0.02 };
  const suites = [{ name: "sampled" }];
  const begun = await beginEvaluation({ liveness, evaluation: { suites } });
  const { log, memory, store, config, job, untilJob, evaluator } = begun;
  const { release } = await readRunContext(config.run, "0.0.0", store, log);
  const other = WorkerRecord.parse({
    ...{ run: config.run, worker: "other", agent: "*", roles: ["eval"], url: "", state: "alive", release },
    ...{ counter: 1, seenCounter: -1, seenAt: 0, inFlight: [] },
  });
  await memory.table.insert(tableKeys.worker(config.run, "other"), { ...other });
  const leases: string[] = [];
  const update: typeof store.table.update = async (change) => {
    if (change.key.sk.startsWith(tablePrefixes.jobs) && leases.push(change.key.sk) === 1)
      await memory.table.update(leaseJob(await job(), "other"));
    return store.table.update(change);
  };
  const stop = new AbortController();
  const beats = async () => {
    const workers = await memory.table.query(tableKeys.run(config.run).pk, tablePrefixes.workers);
    return Math.max(...workers.map(({ counter }) => Number(counter)));
  };
  const evaluating = evaluator(stop.signal, {}, { ...store, table: { ...store.table, update } });
  await vi.waitFor(() => expect(leases).toHaveLength(1), 60_000);
  const before = await beats();
  await vi.waitFor(async () => expect(await beats()).toBeGreaterThan(before + 10), 60_000);
  expect(await job()).toMatchObject({ state: "leased", owner: "other", fence: 1 });
  expect(memory.objects.keys().filter((key) => key.includes("/rollouts/"))).toEqual([]);
  await memory.table.update(markDead(other));
  await untilJob({ state: "done", n: 6, fence: 2 });
  stop.abort();
  await evaluating;
});
