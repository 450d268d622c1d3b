/** @file Ctrl-C and SIGTERM: the first signal asks the process to stop, a later one ends it at once. */
import { AsyncResource } from "node:async_hooks";

/** A repeat within this time is ignored: one Ctrl-C is sent by the terminal and then by npm (github.com/npm/cli/issues/5021). */
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
    // It is safe to end without waiting: nothing that is recorded is lost.
    if (performance.now() - firstAt > REPEAT_MILLISECONDS) process.exit(INTERRUPTED);
  };
  // All listeners of a signal run in the context of the first one, which may be in a user's code, where `process.exit` throws.
  const listener = AsyncResource.bind(onSignal);
  process.on("SIGINT", listener).on("SIGTERM", listener);
  return () => {
    process.off("SIGINT", listener).off("SIGTERM", listener);
  };
}
