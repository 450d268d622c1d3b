/**
 * @file One poller per process for RUN, its current STEP and the next one, shared by all loops of the worker. It polls fast while this
 * process causes changes. Each idle poll waits 10 % longer than the one before, up to ten times `liveness.pollSeconds`.
 *
 *     until(pick)   waits for: a state in which `pick` finds something   unblocked by: tick's writes to RUN and STEP
 */
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { RunRecord, StepRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { TableItem } from "../../core/ports.ts";
import type { RunContext } from "../run-context.ts";

/** What this process knows about its run. */
export interface RunSnapshot {
  readonly run: RunRecord;
  /** STEP of RUN.step; undefined before it is planned and after the last. */
  readonly step: StepRecord | undefined;
  /** The STEP after one that is fully sampled, once it is planned and this worker can sample from the version that it pins. */
  readonly next: StepRecord | undefined;
}

type Selector<T> = (snapshot: RunSnapshot) => T | undefined;

export interface StepWatch {
  current(): RunSnapshot | undefined;
  /** Waits until `pick` returns something. Rejects with `canceled` when the signal aborts. */
  until<T>(pick: Selector<T>, signal: AbortSignal): Promise<T>;
  /** Like `until`, but polls fast while it waits. */
  untilUrgently<T>(pick: Selector<T>, signal: AbortSignal): Promise<T>;
  /** Sleeps for `seconds`, or until `pick` finds something or the signal aborts. */
  pause(seconds: number, pick: Selector<unknown>, signal: AbortSignal): Promise<void>;
  /** Records that this worker can sample from a version of its agent. */
  markServable(version: number): void;
  /** Polls fast again: this process has just done something that may change the state. */
  expectChange(): void;
  /** Polls at once, on a hint that the state has changed. */
  pollNow(): void;
  /** Reads the state now. */
  refresh(): Promise<RunSnapshot>;
  /** Polls until the signal aborts; rejects when the store is lost. */
  poll(signal: AbortSignal): Promise<void>;
}

/** `agent`: this worker's; without it, the snapshot never has a next step. */
export function watchSteps(run: RunContext, agent?: string): StepWatch {
  return new StepPoller(run, agent);
}

class StepPoller implements StepWatch {
  readonly #run: RunContext;
  readonly #agent: string | undefined;
  /** Each looks at the new snapshot, and removes itself once it has found what it waits for. */
  readonly #waiters = new Set<() => void>();
  #snapshot: RunSnapshot | undefined;
  /** STEP after the current one, whether or not this worker can sample it. */
  #planned: StepRecord | undefined;
  /** Newest version of the agent that this worker can sample from. Agents that are not trained have only version 0. */
  #newestVersion = 0;
  /** Reads are numbered, so that a late response cannot overwrite a newer one. */
  #reads = { begun: 0, newest: 0 };
  #urgentWaits = 0;
  /** The current wait between two polls. */
  #intervalSeconds: number;
  /** Ends the sleep between two polls. */
  #wake = new AbortController();

  constructor(run: RunContext, agent: string | undefined) {
    this.#run = run;
    this.#agent = agent;
    this.#intervalSeconds = this.#minIntervalSeconds;
  }

  get #minIntervalSeconds(): number {
    return this.#run.config.liveness.pollSeconds;
  }

  current(): RunSnapshot | undefined {
    return this.#snapshot;
  }

  until<T>(pick: Selector<T>, signal: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      const stop = () => {
        this.#waiters.delete(look);
        reject(new MgrpoError("canceled", "the worker is stopping"));
      };
      const look = () => {
        const found = this.#snapshot && pick(this.#snapshot);
        if (found === undefined) return;
        this.#waiters.delete(look);
        signal.removeEventListener("abort", stop);
        resolve(found);
      };
      if (signal.aborted) return stop();
      signal.addEventListener("abort", stop, { once: true });
      this.#waiters.add(look);
      look();
    });
  }

  async untilUrgently<T>(pick: Selector<T>, signal: AbortSignal): Promise<T> {
    this.#urgentWaits++;
    this.expectChange();
    try {
      return await this.until(pick, signal);
    } finally {
      this.#urgentWaits--;
    }
  }

  async pause(seconds: number, pick: Selector<unknown>, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const end = () => over.abort();
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    const found = this.until(pick, over.signal).then(end, end);
    await this.#run.store.clock.sleep(seconds, over.signal);
    end();
    await found;
    signal.removeEventListener("abort", end);
  }

  markServable(version: number): void {
    this.#newestVersion = Math.max(this.#newestVersion, version);
    if (this.#snapshot) this.#update(this.#snapshot.run, this.#snapshot.step);
  }

  expectChange(): void {
    // A sleep that is nearly over is not worth an extra read.
    if (this.#intervalSeconds > 2 * this.#minIntervalSeconds) this.#wake.abort();
    this.#intervalSeconds = this.#minIntervalSeconds;
  }

  pollNow(): void {
    this.#intervalSeconds = this.#minIntervalSeconds;
    this.#wake.abort();
  }

  async poll(signal: AbortSignal): Promise<void> {
    signal.addEventListener("abort", () => this.#wake.abort(), { once: true });
    while (!signal.aborted) {
      // Renewed before the read: a change announced during the read may be newer than its result.
      this.#wake = new AbortController();
      await this.refresh();
      await this.#run.store.clock.sleep(this.#intervalSeconds, this.#wake.signal);
      const isIdle = !this.#wake.signal.aborted && this.#urgentWaits === 0;
      if (isIdle) this.#intervalSeconds = Math.min(this.#intervalSeconds * 1.1, this.#minIntervalSeconds * 10);
    }
  }

  async refresh(): Promise<RunSnapshot> {
    const { name, store } = this.#run;
    const read = ++this.#reads.begun;
    // STEP is nearly always the last known one or its successor, so one call reads RUN and both.
    const known = this.#snapshot?.run.step ?? 0;
    const keys = [tableKeys.run(name), tableKeys.step(name, known), tableKeys.step(name, known + 1)];
    const [record, ...steps] = await store.table.getAll(keys);
    const run = parse(RunRecord, record, `record of run '${name}'`);
    const ahead = run.step - known;
    const item = ahead === 0 || ahead === 1 ? steps[ahead] : await store.table.get(tableKeys.step(name, run.step));
    if (this.#snapshot && read < this.#reads.newest) return this.#snapshot;
    this.#reads.newest = read;
    this.#planned = this.#parseStep(ahead === 0 ? steps[1] : undefined, run.step + 1);
    return this.#update(run, this.#parseStep(item, run.step));
  }

  #parseStep(item: TableItem | undefined, step: number): StepRecord | undefined {
    return item && parse(StepRecord, item, `STEP ${step} of ${this.#run.name}`);
  }

  /** Adopts what was read, and notifies the waiters if it is new. */
  #update(run: RunRecord, step: StepRecord | undefined): RunSnapshot {
    const isSampled = step !== undefined && step.state !== "open";
    const next = isSampled && this.#planned && this.#isServable(this.#planned) ? this.#planned : undefined;
    const snapshot = { run, step, next };
    if (this.#snapshot && JSON.stringify(snapshot) === JSON.stringify(this.#snapshot)) return this.#snapshot;
    this.#snapshot = snapshot;
    this.#intervalSeconds = this.#minIntervalSeconds;
    for (const look of [...this.#waiters]) look();
    return snapshot;
  }

  #isServable({ policy }: StepRecord): boolean {
    return this.#agent !== undefined && this.#newestVersion >= (policy[this.#agent] ?? Number.POSITIVE_INFINITY);
  }
}
