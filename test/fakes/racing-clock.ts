/** @file This process's monotonic clock, which a test can make race past every time limit. Timers are unaffected. */
import { vi } from "vitest";

const DAY_MILLISECONDS = 86_400_000;

export interface RacingClock {
  /**
   * Advances by a day, at once and then every 300 ms until `stop`. Once is not enough: the end of a training call extends the deadlines of all
   * open engine calls.
   */
  race(): void;
  stop(): void;
  restore(): void;
}

export function racingClock(): RacingClock {
  const now = performance.now.bind(performance);
  let advanced = 0;
  let racing: NodeJS.Timeout | undefined;
  const spy = vi.spyOn(performance, "now").mockImplementation(() => now() + advanced);
  const advance = () => {
    advanced += DAY_MILLISECONDS;
  };
  const stop = () => clearInterval(racing);
  return {
    race() {
      stop();
      advance();
      racing = setInterval(advance, 300);
    },
    stop,
    restore() {
      stop();
      spy.mockRestore();
    },
  };
}
