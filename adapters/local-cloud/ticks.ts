/** @file The cloud's schedule: calls a handler at a fixed interval. A tick is skipped while an earlier one is still running. */

/** `seconds`: the interval; 0: never. Returns a function that stops the schedule and waits for the tick in progress. */
export function startTicks(
  seconds: number,
  handler: () => Promise<void>,
  report: (line: string) => void,
): () => Promise<void> {
  if (seconds === 0) return async () => {};
  let running: Promise<void> | undefined;
  const tick = async () => {
    await handler().catch((error: Error) => report(`tick: ${error.message}; the next tick retries`));
    running = undefined;
  };
  const timer = setInterval(() => {
    running ??= tick();
  }, seconds * 1000);
  return async () => {
    clearInterval(timer);
    await running;
  };
}
