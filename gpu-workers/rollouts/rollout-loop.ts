/**
 * @file The main agent's rollouts: as many in flight as there is room for. Each rollout ends in one committed outcome, whichever worker
 * runs it. A worker samples several open steps at once; an earlier step claims first.
 *
 *     steps to sample ──> a round of claiming for each ──> attempts start ──> pause ──> next round … until a step is no longer open
 *                           claiming.ts                     attempts.ts       pacing.ts
 *
 *     a step   waits for: this agent's version (liveness/opening.ts)   unblocked by: tick, or `markServable`
 *     a claim  waits for: free capacity, and a live worker of each sub-agent
 *     a round  waits for: the end of an attempt, a change of the open steps, or the end of the pause
 *
 * Rollouts claimed by a dead worker are suspects. A suspect runs alone, while WORKER.inFlight names it, and later steps wait for it.
 */
import { linkSignals } from "../../core/any-signal.ts";
import type { StepRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import { sum } from "../../core/statistics.ts";
import { stepsToSample } from "../liveness/opening.ts";
import type { RunSnapshot } from "../liveness/watch.ts";
import { Attempts, type Slots } from "./attempts.ts";
import { Claiming } from "./claiming.ts";
import { Pacing } from "./pacing.ts";
import { beginStep, type RolloutRole, type StepWork } from "./step-work.ts";

/** A step that is being sampled. */
interface SampledStep {
  readonly work: StepWork;
  readonly attempts: Attempts;
  readonly claiming: Claiming;
  readonly over: AbortController;
}

interface RolloutLoop {
  readonly role: RolloutRole;
  readonly pacing: Pacing;
  readonly slots: Slots;
  /** By number, in order. */
  readonly steps: Map<number, SampledStep>;
  readonly stop: AbortSignal;
}

/** Samples until the signal aborts; then rejects with `canceled`, after giving its claims back. */
export async function runRollouts(role: RolloutRole, stop: AbortSignal): Promise<void> {
  const pacing = new Pacing(role.run.config.liveness.pollSeconds);
  const slots = { capacity: role.capacity, inFlight: 0, started: 0, isAlone: false };
  const loop: RolloutLoop = { role, pacing, slots, steps: new Map(), stop };
  role.membership.setRolloutCounter(() => ({ running: slots.inFlight, quarantined: quarantinedCount(loop) }));
  try {
    for (;;) {
      const seen = await role.watch.until((now) => (isIdle(loop, now) ? undefined : now), stop);
      if (stop.aborted) throw new MgrpoError("canceled", "the worker is stopping");
      await runRound(loop, seen);
    }
  } finally {
    for (const { over } of loop.steps.values()) over.abort();
    await Promise.all([...loop.steps.values()].map(({ attempts }) => attempts.close()));
    for (const { attempts } of loop.steps.values()) attempts.throwFault();
  }
}

/** Number of rollouts that wait to run alone, of all steps. */
const quarantinedCount = ({ steps }: RolloutLoop): number =>
  sum([...steps.values()].flatMap(({ work }) => work.views.map((view) => view.quarantined.size)));

const isIdle = ({ steps }: RolloutLoop, seen: RunSnapshot) => steps.size === 0 && stepsToSample(seen).length === 0;

/** Leaves steps that are no longer open, begins those that have opened, and claims rollouts of each. */
async function runRound(loop: RolloutLoop, seen: RunSnapshot): Promise<void> {
  const { role, slots, pacing, stop } = loop;
  const open = stepsToSample(seen);
  for (const [step, { over, attempts }] of loop.steps) {
    if (open.some((one) => one.step === step)) continue;
    loop.steps.delete(step);
    over.abort();
    await attempts.close();
    attempts.throwFault();
  }
  const before = slots.started;
  const mayFindMore = await claimInOrder(loop, open);
  pacing.afterRound(slots.started > before);
  const seconds = mayFindMore ? pacing.seconds : role.run.config.liveness.leaseSeconds / 2;
  const shape = shapeOf(seen);
  await pacing.pause(role.watch, seconds, (now) => shapeOf(now) !== shape, stop);
}

/** True if another round may soon find more. */
async function claimInOrder(loop: RolloutLoop, open: readonly StepRecord[]): Promise<boolean> {
  let mayFindMore = false;
  for (const step of open) {
    const { claiming, attempts } = sampledStep(loop, step);
    const found = await claiming.round(step);
    attempts.throwFault();
    mayFindMore ||= found || claiming.mustRunAlone;
    if (claiming.mustRunAlone) break;
  }
  return mayFindMore;
}

function sampledStep({ role, slots, pacing, steps, stop }: RolloutLoop, step: StepRecord): SampledStep {
  const known = steps.get(step.step);
  if (known) return known;
  const over = new AbortController();
  const work = beginStep(role, step, linkSignals(stop, over.signal).signal);
  const attempts = new Attempts(work, slots, () => pacing.wake());
  const begun = { work, attempts, claiming: new Claiming(work, attempts, pacing), over };
  steps.set(step.step, begun);
  return begun;
}

/** Differs once there may be more to claim, or less. */
function shapeOf(seen: RunSnapshot): string {
  const open = stepsToSample(seen).map(({ step, groups }) => `${step}:${groups.length}`);
  return [seen.run.step, ...open].join(" ");
}
