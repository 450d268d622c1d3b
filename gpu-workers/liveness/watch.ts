/**
 * @file One poller per process for RUN and its current STEP, shared by all loops of the worker. It polls quickly while this process
 * does something (`poke`), and each idle poll waits a tenth longer than the one before, up to ten times the pace.
 *
 *     until(pick)   waits for: a state in which `pick` finds what it wants   unblocked by: tick's writes to RUN and STEP
 */
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { RunRecord, StepRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Run } from "../run.ts";

export interface Seen {
  readonly run: RunRecord;
  /** STEP of RUN.step; undefined before it is planned and after the last. */
  readonly step: StepRecord | undefined;
}

export interface StepWatch {
  current(): Seen | undefined;
  /** Waits until `pick` returns something. Rejects with `cancelled` when the signal aborts. */
  until<T>(pick: (seen: Seen) => T | undefined, signal: AbortSignal): Promise<T>;
  /** Sleeps until so many seconds are over, `pick` finds something, or the signal aborts. */
  pause(seconds: number, pick: (seen: Seen) => unknown, signal: AbortSignal): Promise<void>;
  /** The state is about to change: polls at full pace again. */
  poke(): void;
  /** The state has changed: looks at once. */
  hint(): void;
  /** Reads now. */
  refresh(): Promise<Seen>;
  /** Polls until the signal aborts; rejects when the store is lost. */
  poll(signal: AbortSignal): Promise<void>;
}

export function watchSteps({ name, config, store }: Run): StepWatch {
  const { table, clock } = store;
  const quick = config.liveness.pollSeconds;
  const waiting = new Set<() => void>();
  let seen: Seen | undefined;
  let pace = quick;
  let wake = new AbortController();

  async function refresh(): Promise<Seen> {
    // STEP is the one seen before or the next one: both are asked for with RUN, in one call.
    const before = seen?.run.step ?? 0;
    const keys = [tableKeys.run(name), tableKeys.step(name, before), tableKeys.step(name, before + 1)];
    const [record, ...steps] = await table.getAll(keys);
    const run = parse(RunRecord, record, `record of run '${name}'`);
    const ahead = run.step - before;
    const item = ahead === 0 || ahead === 1 ? steps[ahead] : await table.get(tableKeys.step(name, run.step));
    const next = { run, step: item && parse(StepRecord, item, `STEP ${run.step} of ${name}`) };
    if (seen && JSON.stringify(next) === JSON.stringify(seen)) return seen;
    seen = next;
    pace = quick;
    for (const look of [...waiting]) look();
    return next;
  }

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

  return {
    current: () => seen,
    refresh,
    until,
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
    poke() {
      // A sleep that is nearly over is not worth a read more.
      if (pace > 2 * quick) wake.abort();
      pace = quick;
    },
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
        if (!wake.signal.aborted) pace = Math.min(pace * 1.1, quick * 10);
      }
    },
  };
}
