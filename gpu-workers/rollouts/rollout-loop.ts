/**
 * @file The main agent's rollouts: as many conversations in flight as there is room for, each ending in one committed outcome. A worker works
 * on one step at a time:
 *
 *     runRollouts ──step──> round of claiming ──> attempts start ──> pause ──> next round … until the step moves on
 *                             claiming.ts          attempts.ts       pacing.ts
 *
 *     a step   waits for: STEP open, or the next one samplable (liveness/opening.ts)   unblocked by: tick
 *     a claim  waits for: free capacity, and a live worker of each sub-agent
 *     a round  waits for: an attempt that ends, the step moving on, or the end of the pause
 *
 * Rollouts claimed by a dead worker are suspects. A suspect runs alone, while WORKER.inFlight names it.
 */
import type { StepRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import { stepToSample } from "../liveness/opening.ts";
import type { RunSnapshot } from "../liveness/watch.ts";
import { Attempts } from "./attempts.ts";
import { Claiming } from "./claiming.ts";
import { Pacing } from "./pacing.ts";
import { beginStep, isEarly, type RolloutRole, type StepWork } from "./step-work.ts";

/** Works on step after step until the signal aborts; then rejects with `canceled`, after giving its claims back. */
export async function runRollouts(role: RolloutRole, signal: AbortSignal): Promise<void> {
  for (;;) {
    const step = await role.watch.until(stepToSample, signal);
    await workOnStep(role, step, signal);
  }
}

async function workOnStep(role: RolloutRole, step: StepRecord, stop: AbortSignal): Promise<void> {
  const over = new AbortController();
  const work = beginStep(role, step, AbortSignal.any([stop, over.signal]));
  const pacing = new Pacing(role.run.config.liveness.pollSeconds);
  const wake = () => pacing.wake();
  // Suspects may run once the step is open for all.
  if (isEarly(work)) work.opened.then(wake, () => {});
  const attempts = new Attempts(work, wake);
  try {
    await runRounds(work, attempts, pacing, stop);
  } finally {
    over.abort();
    await attempts.close();
  }
}

/** Returns when the worker can no longer sample the step. */
async function runRounds(work: StepWork, attempts: Attempts, pacing: Pacing, stop: AbortSignal): Promise<void> {
  const { watch, run } = work.role;
  const claiming = new Claiming(work, attempts, pacing);
  const hasMoved = (seen: RunSnapshot) => {
    const step = stepToSample(seen);
    return step?.step !== work.step || step.groups.length !== work.views.length;
  };
  for (;;) {
    const step = stepToSample(watch.current());
    if (stop.aborted) throw new MgrpoError("canceled", "the worker is stopping");
    if (step?.step !== work.step) return;
    const before = attempts.inFlight;
    const mayFindMore = await claiming.round(step);
    attempts.throwFault();
    pacing.afterRound(attempts.inFlight > before);
    const isSoon = mayFindMore || work.views.some(({ quarantined }) => quarantined.size > 0);
    const seconds = isSoon ? pacing.seconds : run.config.liveness.leaseSeconds / 2;
    await pacing.pause(watch, seconds, hasMoved, stop);
  }
}
