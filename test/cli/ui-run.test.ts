/** @file The page of a run, from the records in its store: scores, steps, the evaluation that is left, and silent workers. */
import { expect, test } from "vitest";
import type { Source } from "../../cli/show/source.ts";
import { runPulse, runView, workerView } from "../../cli/ui/run-view.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { StallDetector } from "../../core/monitoring/stall.ts";
import { evaluationOf } from "../../core/monitoring/team-evaluation.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { config, fillFinishedRun, job, RUN, worker } from "./records.ts";

/** Finished after one step of at most four, with its last evaluation still open. */
async function finishedInStore(): Promise<Source> {
  const store = memoryStore();
  const open = { ...job("greedy", 1, 9), state: "queued" };
  await store.table.insert(tableKeys.job(RUN, open.job), { ...open, interval: { ...open.interval } });
  await fillFinishedRun(store);
  const own = RunConfig.parse({ ...config, steps: 4 });
  const suite = own.evaluation.suites[0] ?? expect.fail();
  const evaluations = [job("sampled", 0, 3), job("sampled", 1, 8)].map((one) => evaluationOf(suite, one));
  return {
    ...{ config: own, state: "finished", reason: "", step: 1, evaluations, folder: "." },
    summaries: async () => [],
    read: (read) => read(store),
  };
}

test("the page of a finished run shows its held-out scores, and as many steps as it took", async () => {
  expect(await runView(await finishedInStore())).toMatchObject({
    ...{ state: "finished", step: 1, steps: 1 },
    heldOut: { before: 0.3, after: 0.8 },
  });
});

test("the page shows the evaluation that is left, although the run is finished", async () => {
  const source = await finishedInStore();
  const pulse = await runPulse(source, new StallDetector(source.config), null);
  expect(pulse).toMatchObject({ state: "finished", closed: 1, workers: [] });
  expect(pulse.wait).toMatch(/^evaluation 4 of 4: greedy after 1 step\b/);
  expect(pulse.usd).toBe(0);
});

test("the pulse of a local run that is evaluated after its last step has the state running and no open step", async () => {
  const source = await finishedInStore();
  const pulse = await runPulse({ ...source, state: "running" }, new StallDetector(source.config), null);
  expect(pulse).toMatchObject({ state: "running", step: 1, openStep: null });
});

test("a worker in state alive is silent once tick has seen no change of its counter for longer than a lease, and the counter is still the same", () => {
  const seen = { ...worker("searcher"), seenAt: 1000 };
  const isSilentAt = (seconds: number, changes: Partial<typeof seen> = {}) =>
    workerView({ ...seen, ...changes }, 60, 1000 + 1000 * seconds).isSilent;
  expect([isSilentAt(59), isSilentAt(61)]).toEqual([false, true]);
  expect(isSilentAt(61, { counter: 2 })).toBe(false);
  expect(isSilentAt(61, { state: "draining" })).toBe(false);
  expect(isSilentAt(61, { seenAt: 0 })).toBe(false);
});
