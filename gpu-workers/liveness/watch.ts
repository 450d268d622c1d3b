/**
 * @file One poller per process for RUN, its STEP and those that follow it, shared by all loops of the worker. It polls fast while this
 * process causes changes. Each idle poll waits 10% longer than the one before, up to ten times `liveness.pollSeconds`.
 *
 *     until(pick)   waits for: a state in which `pick` finds something   unblocked by: a change of RUN or STEP, or `markServable`
 */
import { type TableKey, tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { RunRecord, StepRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { RunContext } from "../run-context.ts";

/** What this process knows about its run. */
export interface RunSnapshot {
  readonly run: RunRecord;
  /** STEP of RUN.step; undefined before it is planned and after the last. */
  readonly step: StepRecord | undefined;
  /** STEP of RUN.step and those after it, as far as they are planned. */
  readonly steps: readonly StepRecord[];
  /** Those of them that this worker can sample, oldest first. */
  readonly samplable: readonly StepRecord[];
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
  /** Polls until the signal aborts; rejects when the store is unreachable. */
  poll(signal: AbortSignal): Promise<void>;
}

/** `agent`: this worker's; without it, only steps in flight are samplable. */
export function watchSteps(run: RunContext, agent?: string): StepWatch {
  return new StepPoller(run, agent);
}

class StepPoller implements StepWatch {
  readonly #run: RunContext;
  readonly #agent: string | undefined;
  /** Each looks at the new snapshot, and removes itself once it has found what it waits for. */
  readonly #waiters = new Set<() => void>();
  #snapshot: RunSnapshot | undefined;
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
    if (this.#snapshot) this.#update(this.#snapshot.run, this.#snapshot.steps);
  }

  expectChange(): void {
    // Ending a shorter sleep would not be worth an extra read.
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
    // RUN.step is nearly always the last known one or its successor, so one call usually reads RUN and its steps.
    const known = this.#snapshot?.run.step ?? 0;
    const [record, ...found] = await store.table.getAll([tableKeys.run(name), ...this.#stepKeys(known)]);
    const run = parse(RunRecord, record, `record of run '${name}'`);
    const ahead = run.step - known;
    const items = ahead === 0 || ahead === 1 ? found.slice(ahead) : await store.table.getAll(this.#stepKeys(run.step));
    if (this.#snapshot && read < this.#reads.newest) return this.#snapshot;
    this.#reads.newest = read;
    const end = items.indexOf(undefined);
    const planned = end === -1 ? items : items.slice(0, end);
    const what = (i: number) => `STEP ${run.step + i} of ${name}`;
    return this.#update(
      run,
      planned.map((item, i) => parse(StepRecord, item, what(i))),
    );
  }

  /** The steps in flight, if RUN points to `first`, and the one that is planned next. */
  #stepKeys(first: number): TableKey[] {
    const { name, config } = this.#run;
    return Array.from({ length: config.staleness + 2 }, (_, i) => tableKeys.step(name, first + i));
  }

  /** Stores the new snapshot and notifies the waiters, if it differs from the last one. */
  #update(run: RunRecord, steps: readonly StepRecord[]): RunSnapshot {
    const { staleness } = this.#run.config;
    const samplable = steps.filter(
      (step) => step.state === "open" && (step.step <= run.step + staleness || this.#isServable(step)),
    );
    const snapshot = { run, step: steps[0], steps, samplable };
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
