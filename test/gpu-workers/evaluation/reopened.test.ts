/** @file A job that is queued again after its evaluator has evaluated it, and then leased by a dead worker. */
import { expect, test } from "vitest";
import { objectKeys } from "../../../core/contracts/keys.ts";
import { leaseJob, reopenJob } from "../../../core/training/job-writes.ts";
import { beginEvaluation } from "../../fixtures/relay/evaluation.ts";

test("a live evaluator takes over a job that it has evaluated before, when its new owner is dead", async () => {
  const suites = [{ name: "sampled" }];
  const { memory, config, job, untilJob, evaluator } = await beginEvaluation({ evaluation: { suites } });
  const stop = new AbortController();
  const evaluating = evaluator(stop.signal);
  await untilJob({ state: "done" });
  const done = await job();
  await memory.objects.delete([objectKeys.evaluation(config.run, done.job)]);
  // Nothing is awaited between the two writes, so the live evaluator cannot lease the job in between.
  const reopened = memory.table.update(reopenJob(done));
  const leased = memory.table.update(leaseJob({ ...done, state: "queued", owner: "" }, "gone"));
  expect((await Promise.all([reopened, leased])).map(({ applied }) => applied)).toEqual([true, true]);
  await untilJob({ state: "done", n: done.n, fence: 3 });
  stop.abort();
  await evaluating;
});
