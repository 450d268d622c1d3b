/** @file The monotonic clock of this process, which a test can advance. Timers run as before. */
import { vi } from "vitest";

export interface AdjustableClock {
  advance(seconds: number): void;
  restore(): void;
}

export function adjustableClock(): AdjustableClock {
  const now = performance.now.bind(performance);
  let advanced = 0;
  const spy = vi.spyOn(performance, "now").mockImplementation(() => now() + advanced);
  return {
    advance(seconds) {
      advanced += 1000 * seconds;
    },
    restore: () => spy.mockRestore(),
  };
}
