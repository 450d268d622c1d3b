/**
 * @file What a worker measured during a step: when its engine was busy, and how long the turns of its conversations took. One object per
 * step and worker, for display only (telemetry.ts): records of rollouts hold no times, so that their bytes, which are hashed, are the same for
 * every run of one config.
 *
 *     write   waits for: RUN.step to move on, then one poll interval   unblocked by: tick; the signal, after which the rest is written
 */
import { objectKeys, tableKeys, tablePrefixes } from "../core/contracts/keys.ts";
import { parse, parseJson } from "../core/contracts/parse.ts";
import { WorkerRecord } from "../core/contracts/records.ts";
import { StepTelemetry } from "../core/contracts/telemetry.ts";
import type { Store } from "../core/ports.ts";
import type { BusyMeter } from "./busy.ts";
import { recordBytes } from "./identity.ts";
import type { LatencyLog } from "./latencies.ts";
import type { StepWatch } from "./liveness/watch.ts";
import type { RunContext } from "./run-context.ts";

export interface Measurements {
  readonly meter: Pick<BusyMeter, "takeActivity">;
  readonly latencies: Pick<LatencyLog, "takeBefore">;
}

const NO_ACTIVITY: Pick<StepTelemetry, "sampling" | "training"> = { sampling: [], training: [] };

/** Rejects with `canceled` when the signal aborts. */
export async function writeTelemetry(
  { name, store, log, config }: RunContext,
  watch: StepWatch,
  { worker, agent }: Pick<StepTelemetry, "worker" | "agent">,
  { meter, latencies }: Measurements,
  signal: AbortSignal,
): Promise<void> {
  /** Not committed yet, oldest first. */
  const taken: StepTelemetry[] = [];
  let step: number | undefined;
  /** Intervals belong to the step that was current, conversations to their own: the watch may miss a step that is short. */
  const take = (next: number) => {
    const activity = meter.takeActivity();
    const found = latencies.takeBefore(next);
    const isBusy = activity.sampling.length + activity.training.length > 0;
    const current = isBusy && step !== undefined ? [step] : [];
    for (const one of new Set([...found.keys(), ...current])) {
      const { sampling, training } = one === step ? activity : NO_ACTIVITY;
      const conversations = found.get(one) ?? {};
      taken.push({ run: name, step: one, worker, agent, sampling, training, conversations });
    }
  };
  /** The first object of a step wins: a conversation that ends after it was written is not in it. */
  const commit = async () => {
    for (const record of taken.splice(0)) {
      await store.objects
        .commit(objectKeys.stepTelemetry(name, record.step, worker), recordBytes(record))
        .catch((error: unknown) =>
          log.warn("telemetry could not be stored", { step: record.step, error: String(error) }),
        );
    }
  };
  try {
    for (;;) {
      const next = await watch.until(({ run }) => (run.step === step ? undefined : run.step), signal);
      take(next);
      step = next;
      // Claims of the new step come first: the record must not delay them.
      await store.clock.sleep(config.liveness.pollSeconds, signal);
      await commit();
    }
  } finally {
    take(Number.POSITIVE_INFINITY);
    await commit();
  }
}

/** What the workers of a run stored about a step. A worker that was killed during the step, or still works on it, has stored nothing. */
export async function readTelemetry(
  { table, objects }: Pick<Store, "table" | "objects">,
  run: string,
  step: number,
): Promise<StepTelemetry[]> {
  const { pk } = tableKeys.run(run);
  const items = await Promise.all([tablePrefixes.past, tablePrefixes.workers].map((prefix) => table.query(pk, prefix)));
  const workers = new Set(items.flat().map((item) => parse(WorkerRecord, item, `WORKER of ${run}`).worker));
  const found = [...workers].map(async (worker) => {
    const key = objectKeys.stepTelemetry(run, step, worker);
    const bytes = await objects.get(key);
    return bytes ? [parseJson(StepTelemetry, bytes, key)] : [];
  });
  return (await Promise.all(found)).flat();
}
