/**
 * @file Records when this worker's engine was busy, one object per step. Training does not read it; the timeline of a step and `step.overhead`
 * do.
 *
 *     write   waits for: RUN.step to move on, then one poll   unblocked by: tick; the signal, which writes what is left
 */
import { objectKeys } from "../core/contracts/keys.ts";
import type { StepActivity } from "../core/contracts/telemetry.ts";
import type { BusyMeter } from "./busy.ts";
import { recordBytes } from "./identity.ts";
import type { StepWatch } from "./liveness/watch.ts";
import type { RunContext } from "./run-context.ts";

/** Rejects with `canceled` when the signal aborts, as every loop of a worker. */
export async function writeActivity(
  { name, store, log, config }: RunContext,
  watch: StepWatch,
  { worker, agent }: Pick<StepActivity, "worker" | "agent">,
  meter: Pick<BusyMeter, "takeActivity">,
  signal: AbortSignal,
): Promise<void> {
  /** Not committed yet, oldest first. */
  const taken: StepActivity[] = [];
  let step: number | undefined;
  const take = () => {
    const { sampling, training } = meter.takeActivity();
    if (step === undefined || sampling.length + training.length === 0) return;
    taken.push({ run: name, step, worker, agent, sampling, training });
  };
  const commit = async () => {
    for (const record of taken.splice(0)) {
      await store.objects
        .commit(objectKeys.activity(name, record.step, worker), recordBytes(record))
        .catch((error: unknown) => log.warn("activity is not stored", { step: record.step, error: String(error) }));
    }
  };
  try {
    for (;;) {
      const next = await watch.until(({ run }) => (run.step === step ? undefined : run.step), signal);
      take();
      step = next;
      // Claims of the new step come first: the record must not delay them.
      await store.clock.sleep(config.liveness.pollSeconds, signal);
      await commit();
    }
  } finally {
    take();
    await commit();
  }
}
