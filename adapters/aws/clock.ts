/**
 * @file Clock: the monotonic seconds of this process, and the store's wall clock, read from the Date header of every response and extrapolated
 * by the monotonic clock in between.
 */
import { setTimeout as pause } from "node:timers/promises";
import { MgrpoError } from "../../core/errors.ts";
import type { Clock } from "../../core/ports.ts";

/** A Date header older than this triggers a new request to the store. */
const FRESH_SECONDS = 30;
/**
 * Date headers are truncated to the second, so the largest offset seen is the most accurate. An offset that is smaller
 * by more than this means that the store's clock was set back, or that this process read the response late, which the
 * next response corrects.
 */
const STEP_BACK_MS = 2000;
/**
 * Monotonic clocks stand still while a machine sleeps. If this machine's wall clock has moved by more than this against
 * the monotonic one since the last Date header, the machine slept or its clock was set: the store is asked again.
 */
const JUMP_MS = 2000;
/** The longest wait of a Node.js timer: a longer one ends at once. */
const LONGEST_MS = 2 ** 31 - 1;

export interface StoreClock extends Clock {
  /** Records the Date header of a response. */
  sawDate(date: string | undefined): void;
}

/** `ask` sends any request to the store; the response's Date header reaches `sawDate`. */
export function openClock(ask: () => Promise<unknown>): StoreClock {
  const monotonic = () => performance.now() / 1000;
  let seen: { offsetMs: number; atSeconds: number; wallMs: number } | undefined;
  const isStale = ({ atSeconds, wallMs }: NonNullable<typeof seen>) => {
    const seconds = monotonic() - atSeconds;
    return seconds > FRESH_SECONDS || Math.abs(Date.now() - wallMs - seconds * 1000) > JUMP_MS;
  };
  return {
    monotonic,
    sawDate(date) {
      const time = Date.parse(date ?? "");
      if (Number.isNaN(time)) return;
      const offsetMs = time - monotonic() * 1000;
      const isBetter = seen === undefined || offsetMs > seen.offsetMs || offsetMs < seen.offsetMs - STEP_BACK_MS;
      const bestMs = isBetter ? offsetMs : (seen?.offsetMs ?? offsetMs);
      seen = { offsetMs: bestMs, atSeconds: monotonic(), wallMs: Date.now() };
    },
    async storeTime() {
      if (seen === undefined || isStale(seen)) await ask();
      if (seen === undefined)
        throw new MgrpoError(
          "store-unreachable",
          "the store's responses have no Date header: does a proxy remove it? Leases need the store's time",
        );
      return Math.round(seen.offsetMs + monotonic() * 1000);
    },
    async sleep(seconds, signal) {
      await pause(Math.min(seconds * 1000, LONGEST_MS), undefined, { signal }).catch((error: unknown) => {
        if (!signal?.aborted) throw error;
      });
    },
  };
}
