/** @file The clock of the cloud: calls a handler every so often, never twice at once. */

/** 0 seconds: off. Returns what stops it and waits for the tick in progress. */
export function startTicks(
  seconds: number,
  handler: () => Promise<void>,
  report: (line: string) => void,
): () => Promise<void> {
  if (seconds === 0) return async () => {};
  let running: Promise<void> = Promise.resolve();
  let busy = false;
  const timer = setInterval(() => {
    if (busy) return;
    busy = true;
    running = handler()
      .catch((error: Error) => report(`clock: ${error.message}; the next tick tries again`))
      .finally(() => {
        busy = false;
      });
  }, seconds * 1000);
  return async () => {
    clearInterval(timer);
    await running;
  };
}
