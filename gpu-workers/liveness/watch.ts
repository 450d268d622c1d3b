/**
 * @file One poller per process for RUN, its current STEP and the next, shared by all loops of the worker. It polls quickly while this process
 * does something (`poke`), and each idle poll waits a tenth longer than the one before, up to ten times the pace.
 *
 *     until(pick)   waits for: a state in which `pick` finds what it wants   unblocked by: tick's writes to RUN and STEP
 */
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { RunRecord, StepRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { TableItem } from "../../core/ports.ts";
import type { RunContext } from "../run-context.ts";

export interface Seen {
  readonly run: RunRecord;
  /** STEP of RUN.step; undefined before it is planned and after the last. */
  readonly step: StepRecord | undefined;
  /** STEP after one that is sampled, once it is planned and this worker can sample from the version that it pins. */
  readonly next: StepRecord | undefined;
}

export interface StepWatch {
  current(): Seen | undefined;
  /** Waits until `pick` returns something. Rejects with `cancelled` when the signal aborts. */
  until<T>(pick: (seen: Seen) => T | undefined, signal: AbortSignal): Promise<T>;
  /** The same, polling at full pace meanwhile. */
  soon<T>(pick: (seen: Seen) => T | undefined, signal: AbortSignal): Promise<T>;
  /** Sleeps until so many seconds are over, `pick` finds something, or the signal aborts. */
  pause(seconds: number, pick: (seen: Seen) => unknown, signal: AbortSignal): Promise<void>;
  /** This worker can sample from this version of its agent. */
  serves(version: number): void;
  /** The state is about to change: polls at full pace again. */
  poke(): void;
  /** The state has changed: looks at once. */
  hint(): void;
  /** Reads now. */
  refresh(): Promise<Seen>;
  /** Polls until the signal aborts; rejects when the store is lost. */
  poll(signal: AbortSignal): Promise<void>;
}

/** `agent`: this worker's, for `next`; none: there is no next one. */
export function watchSteps({ name, config, store }: RunContext, agent?: string): StepWatch {
  const { table, clock } = store;
  const quick = config.liveness.pollSeconds;
  const waiting = new Set<() => void>();
  let seen: Seen | undefined;
  let planned: StepRecord | undefined;
  /** Of the agent's versions. Agents that are not trained have only this one. */
  let newest = 0;
  let [looks, newestLook] = [0, 0];
  /** Those that wait impatiently. */
  let eager = 0;
  let pace = quick;
  let wake = new AbortController();

  async function refresh(): Promise<Seen> {
    const look = ++looks;
    // STEP is the one seen before or the next one: both are asked for with RUN, in one call.
    const before = seen?.run.step ?? 0;
    const keys = [tableKeys.run(name), tableKeys.step(name, before), tableKeys.step(name, before + 1)];
    const [record, ...steps] = await table.getAll(keys);
    const run = parse(RunRecord, record, `record of run '${name}'`);
    const ahead = run.step - before;
    const item = ahead === 0 || ahead === 1 ? steps[ahead] : await table.get(tableKeys.step(name, run.step));
    // What was asked for later, and answered sooner, is newer.
    if (seen && look < newestLook) return seen;
    newestLook = look;
    const read = (found: TableItem | undefined, number: number) =>
      found && parse(StepRecord, found, `STEP ${number} of ${name}`);
    planned = read(ahead === 0 ? steps[1] : undefined, run.step + 1);
    return saw(run, read(item, run.step));
  }

  function saw(run: RunRecord, step: StepRecord | undefined): Seen {
    const isSampled = step !== undefined && step.state !== "open";
    const now = { run, step, next: isSampled && planned && isServed(planned) ? planned : undefined };
    if (seen && JSON.stringify(now) === JSON.stringify(seen)) return seen;
    seen = now;
    pace = quick;
    for (const look of [...waiting]) look();
    return now;
  }

  const isServed = ({ policy }: StepRecord) =>
    agent !== undefined && newest >= (policy[agent] ?? Number.POSITIVE_INFINITY);

  function until<T>(pick: (seen: Seen) => T | undefined, signal: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      const stop = () => {
        waiting.delete(look);
        reject(new MgrpoError("cancelled", "the worker is stopping"));
      };
      const look = () => {
        const found = seen && pick(seen);
        if (found === undefined) return;
        waiting.delete(look);
        signal.removeEventListener("abort", stop);
        resolve(found);
      };
      if (signal.aborted) return stop();
      signal.addEventListener("abort", stop, { once: true });
      waiting.add(look);
      look();
    });
  }

  function poke() {
    // A sleep that is nearly over is not worth a read more.
    if (pace > 2 * quick) wake.abort();
    pace = quick;
  }

  return {
    current: () => seen,
    refresh,
    until,
    async soon(pick, signal) {
      eager++;
      poke();
      try {
        return await until(pick, signal);
      } finally {
        eager--;
      }
    },
    async pause(seconds, pick, signal) {
      const over = new AbortController();
      const end = () => over.abort();
      signal.addEventListener("abort", end, { once: true });
      if (signal.aborted) end();
      const found = until(pick, over.signal).then(end, end);
      await clock.sleep(seconds, over.signal);
      end();
      await found;
      signal.removeEventListener("abort", end);
    },
    serves(version) {
      newest = Math.max(newest, version);
      if (seen) saw(seen.run, seen.step);
    },
    poke,
    hint() {
      pace = quick;
      wake.abort();
    },
    async poll(signal) {
      signal.addEventListener("abort", () => wake.abort(), { once: true });
      while (!signal.aborted) {
        // Renewed before the read: what is hinted while it is under way may be newer than what it brings.
        wake = new AbortController();
        await refresh();
        await clock.sleep(pace, wake.signal);
        if (!wake.signal.aborted && eager === 0) pace = Math.min(pace * 1.1, quick * 10);
      }
    },
  };
}
