/**
 * @file The attempts of one step: each runs one claimed rollout, and commits its outcome or gives its claim back.
 *
 *     claimed ──start──> running ──> committed                     the outcome object decides; the claim is left in place
 *                          ├──> quarantined ──start alone──> …     two workers of a sub-agent died, or a retry lost a worker or an engine thread
 *                          └──> released                           aborted, step closed, or run halted
 *
 * Any other error is a fault of this process. It is rethrown to the loop, and the claim on its rollout stays: once this worker counts as dead,
 * the rollout is a suspect. All claims of a worker whose engine hangs, or that is declared dead, stay, too: others then run these rollouts alone.
 */
import { withAnySignal } from "../../core/any-signal.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { digestOf } from "../../core/contracts/names.ts";
import { mainTrajectories, type Outcome } from "../../core/contracts/rollout.ts";
import { isMgrpoError, type MgrpoError } from "../../core/errors.ts";
import { releaseClaim } from "../../core/training/writes.ts";
import { sha256 } from "../../engine/hash.ts";
import { haltIfRefused } from "../halt.ts";
import { recordBytes } from "../identity.ts";
import { attemptRollout } from "./attempt-rollout.ts";
import type { LocalGroupView } from "./local-group-view.ts";
import type { RolloutPlan } from "./rollout-plan.ts";
import { trainingSampling } from "./sampling.ts";
import { groupAddress, rolloutAddress, type StepWork, updateView } from "./step-work.ts";

/** The attempts in flight in this process, of all its steps. */
export interface Slots {
  readonly capacity: number;
  inFlight: number;
  /** Attempts that have started so far. */
  started: number;
  /** A rollout is running alone, or is about to: nothing else starts. */
  isAlone: boolean;
}

export class Attempts {
  readonly #work: StepWork;
  readonly #slots: Slots;
  readonly #onEnd: () => void;
  #fault: { readonly error: unknown } | undefined;

  /** @param onEnd called after each attempt. */
  constructor(work: StepWork, slots: Slots, onEnd: () => void) {
    this.#work = work;
    this.#slots = slots;
    this.#onEnd = onEnd;
  }

  /** Attempts in flight, of all steps. */
  get inFlight(): number {
    return this.#slots.inFlight;
  }

  /** Number of attempts that can start now. */
  get room(): number {
    const { capacity, inFlight, isAlone } = this.#slots;
    return isAlone ? 0 : capacity - inFlight;
  }

  /** Throws the error of a failed attempt, if this process cannot continue after it. */
  throwFault(): void {
    if (this.#fault) throw this.#fault.error;
  }

  /** Runs a rollout that this worker has claimed, alongside others. */
  start(view: LocalGroupView, k: number): void {
    this.#launch(view, k, (signal) => this.#run(view, k, signal, false));
  }

  /** Runs a rollout with no other in flight, while WORKER.inFlight names it, so that a crash counts against it. */
  startAlone(view: LocalGroupView, k: number): void {
    const { membership } = this.#work.role;
    this.#slots.isAlone = true;
    this.#launch(view, k, async (signal) => {
      await membership.setInFlight([`${this.#work.step}/${view.index}/${k}`]);
      await this.#run(view, k, signal, true);
      await membership.setInFlight([]);
      this.#slots.isAlone = false;
    });
  }

  async commit(outcome: Outcome): Promise<void> {
    const { run, watch, trajectories } = this.#work.role;
    const key = objectKeys.outcome(outcome.address);
    const bytes = recordBytes(outcome);
    const isFirst = await run.store.objects.commit(key, bytes);
    if (isFirst && outcome.status === "finished") {
      trajectories.put(this.#work.step, key, mainTrajectories(outcome), digestOf(sha256(bytes)));
    }
    if (outcome.status === "failed") run.log.warn("rollout abandoned", { key, reason: outcome.reason });
    watch.expectChange();
  }

  /** Waits for all attempts to end, then, unless one had a fault, releases quarantined rollouts. Call after the step's signal has aborted. */
  async close(): Promise<void> {
    const { views } = this.#work;
    await Promise.all(views.flatMap(({ running }) => [...running.values()].map(({ done }) => done)));
    if (this.#fault) return;
    await Promise.all(views.flatMap((view) => [...view.quarantined].map((k) => this.#release(view, k))));
  }

  #launch(view: LocalGroupView, k: number, attempt: (signal: AbortSignal) => Promise<void>): void {
    const controller = new AbortController();
    view.unclaimable.add(k);
    this.#slots.inFlight += 1;
    this.#slots.started += 1;
    const done = withAnySignal([this.#work.signal, controller.signal], attempt)
      .catch((error: unknown) => {
        this.#fault ??= { error };
      })
      .finally(() => {
        view.running.delete(k);
        this.#slots.inFlight -= 1;
        this.#onEnd();
      });
    view.running.set(k, { controller, done });
  }

  async #run(view: LocalGroupView, k: number, signal: AbortSignal, isAlone: boolean): Promise<void> {
    const plan = planOf(this.#work, view, k);
    try {
      // Alongside others, a rollout during which two workers died is not retried: it runs alone next. A worker or an engine thread that ends
      // loses all its samples, so a rollout whose first attempt fails this way is retried alongside others.
      const canRetry = (error: MgrpoError, attempt: number) =>
        isAlone || !isMgrpoError(error, "worker-unavailable") || (error.retryable && attempt === 1);
      await this.commit(await attemptRollout(this.#work.host, plan, signal, canRetry));
    } catch (error) {
      if (this.#work.role.membership.end === "hung") throw error;
      if (isMgrpoError(error, "worker-unavailable")) {
        view.quarantined.add(k);
        return;
      }
      if (!isMgrpoError(error, "canceled", "step-closed")) await this.#haltOrThrow(error);
      await this.#release(view, k);
    }
  }

  async #haltOrThrow(error: unknown): Promise<void> {
    const { run, watch } = this.#work.role;
    if (!(await haltIfRefused(run, error))) throw error;
    await watch.refresh();
  }

  /** Gives the claim back, unless this worker has been declared dead: the rollout may be why it sent no heartbeats. */
  async #release(view: LocalGroupView, k: number): Promise<void> {
    const { run, membership } = this.#work.role;
    if (membership.end === "lost") return;
    const change = releaseClaim(groupAddress(this.#work, view), k, membership.id);
    updateView(this.#work, view, (await run.store.table.update(change)).item);
    view.unclaimable.delete(k);
  }
}

function planOf(work: StepWork, view: LocalGroupView, k: number): RolloutPlan {
  const { run } = work.role;
  return {
    address: rolloutAddress(work, view, k),
    question: run.question(view.record?.questionId ?? ""),
    versions: work.versions,
    ...trainingSampling(run.config),
    purpose: [run.config.seed, "sample"],
    closedBook: false,
    opened: work.opened,
  };
}
