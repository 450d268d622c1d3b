/** @file Whether a run has stalled. If nobody timed its steps, its records say how long they take. */
import type { RunConfig } from "../../core/contracts/config.ts";
import type { ListedRun } from "../../core/contracts/records.ts";
import type { RunState } from "../../core/monitoring/run-state.ts";
import type { Stall, StallDetector } from "../../core/monitoring/stall.ts";
import type { Store } from "../../core/ports.ts";
import { readStepSeconds } from "./read-records.ts";

export interface StallObservation {
  readonly state: RunState;
  /** Store time in ms. */
  readonly now: number;
  /** Of the newest closed step; null: nobody timed it. */
  readonly stepSeconds: number | null;
  readonly listed?: ListedRun | undefined;
}

/** For each detector, how long the steps before an open step take. */
const timed = new WeakMap<StallDetector, { readonly step: number; readonly seconds: number | null }>();

/**
 * The stall that the detector reports, if any. The records of earlier steps are read only before a stall would be reported, and once for each
 * open step.
 */
export async function readStall(
  store: Store,
  { run }: RunConfig,
  detector: StallDetector,
  { state, now, stepSeconds, listed }: StallObservation,
): Promise<Stall | undefined> {
  const stall = detector.observe(state, now, stepSeconds, listed);
  if (!stall || stepSeconds !== null || stall.step === undefined) return stall;
  let known = timed.get(detector);
  if (known?.step !== stall.step) {
    known = { step: stall.step, seconds: (await readStepSeconds(store, run, stall.step)) ?? null };
    timed.set(detector, known);
  }
  return detector.observe(state, now, known.seconds, listed);
}
