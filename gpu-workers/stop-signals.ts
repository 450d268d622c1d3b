/** @file Ctrl-C and SIGTERM: the first stops, a later one ends the process at once. */

/** At Ctrl-C, the terminal signals this process, and then so does npm (github.com/npm/cli/issues/5021): one Ctrl-C, signaled twice. */
const REPEAT_MILLISECONDS = 500;
/** The shell's exit code for Ctrl-C. */
const INTERRUPTED = 130;

/** Calls `stop` at the first signal. Returns a function that stops listening. */
export function onStopSignal(stop: (signal: NodeJS.Signals) => void): () => void {
  let firstAt: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    if (firstAt === undefined) {
      firstAt = performance.now();
      return stop(signal);
    }
    // Need not wait: nothing that is recorded is lost.
    if (performance.now() - firstAt > REPEAT_MILLISECONDS) process.exit(INTERRUPTED);
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  return () => {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  };
}
