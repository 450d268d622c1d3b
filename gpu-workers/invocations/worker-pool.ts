/**
 * @file The live workers that serve an agent, as one caller sees them. Callers rank them by rendezvous hash: all callers
 * agree on the order, and when a worker leaves, only its own share moves to others.
 */
import { createHash } from "node:crypto";
import type { WorkerRecord } from "../../core/contracts/records.ts";
import type { Clock } from "../../core/ports.ts";
import { type WorkerObserver, workersServing } from "../liveness/observer.ts";

/** How long a worker that failed to answer is passed over. */
const PASS_OVER_SECONDS = 1;

export class WorkerPool {
  readonly #observer: WorkerObserver;
  readonly #clock: Pick<Clock, "monotonic">;
  /** Worker -> monotonic time until which it is passed over. */
  readonly #passedOverUntil = new Map<string, number>();

  constructor(observer: WorkerObserver, clock: Pick<Clock, "monotonic">) {
    this.#observer = observer;
    this.#clock = clock;
  }

  /** The first worker by rank for this invocation or session; undefined when there is none now. */
  async pick(id: string, agent: string): Promise<WorkerRecord | undefined> {
    const isServed = workersServing(this.#observer, agent).length > 0;
    await this.#observer.refresh(!isServed);
    const now = this.#clock.monotonic();
    const [first] = workersServing(this.#observer, agent)
      .filter(({ worker }) => (this.#passedOverUntil.get(worker) ?? Number.NEGATIVE_INFINITY) < now)
      .map((worker) => ({ worker, rank: rank(id, worker.worker) }))
      .sort((a, b) => (a.rank < b.rank ? 1 : -1));
    return first?.worker;
  }

  passOver({ worker }: WorkerRecord): void {
    const now = this.#clock.monotonic();
    for (const [other, until] of this.#passedOverUntil) if (until < now) this.#passedOverUntil.delete(other);
    this.#passedOverUntil.set(worker, now + PASS_OVER_SECONDS);
  }
}

function rank(id: string, worker: string): string {
  return createHash("sha256").update(`${id} ${worker}`).digest("hex");
}
