/** @file The clock of the cloud: calls a handler at a fixed interval, never twice at once. */

/** 0 seconds: off. Returns a function that stops the clock and waits for the tick in progress. */
export function startTicks(
  seconds: number,
  handler: () => Promise<void>,
  report: (line: string) => void,
): () => Promise<void> {
  if (seconds === 0) return async () => {};
  let running: Promise<void> | undefined;
  const tick = async () => {
    await handler().catch((error: Error) => report(`clock: ${error.message}; the next tick tries again`));
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
