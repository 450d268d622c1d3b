/**
 * @file `mgrpo dispatch`: runs the functions without Lambda, on the store named by the environment. It needs no S3 events: it
 * polls the store and does what the events would have done.
 *
 *     poll ──outage──> logged once, polls again
 *      '──an error of one run──> logged once, the other runs continue
 *      '──a permanent error (no such table, expired credentials)──> exits with the reason
 */
import { openAwsStore } from "../adapters/aws/store.ts";
import { isMgrpoError, type MgrpoError } from "../core/errors.ts";
import type { Clock } from "../core/ports.ts";
import { composeFunctions } from "../functions/compose.ts";
import type { Functions } from "../functions/functions.ts";
import { onStopSignal } from "../gpu-workers/stop-signals.ts";
import { isolatedRewards } from "../recipes/isolated-rewards.ts";
import { storeNames } from "./store-names.ts";

export interface DispatchOptions {
  /** Seconds between two polls. */
  readonly everySeconds: number;
}

export async function dispatch({ everySeconds }: DispatchOptions): Promise<void> {
  const names = storeNames("dispatch");
  const store = openAwsStore(names);
  const stop = new AbortController();
  const stopListening = onStopSignal(() => stop.abort());
  try {
    // With no runs, no poll reads an object: this read detects a missing bucket at startup.
    await store.objects.get("runs");
    console.log(JSON.stringify({ kind: "dispatching", ...names, everySeconds }));
    const functions = composeFunctions(store, { rewardsOf: isolatedRewards(process.env) });
    await pollUntil(stop.signal, store.clock, functions, everySeconds);
  } finally {
    stopListening();
    store.close();
  }
}

/** Polls until the signal aborts or a poll rejects. Then cancels pending judge requests, which would keep the process alive and cost money. */
export async function pollUntil(
  signal: AbortSignal,
  clock: Pick<Clock, "sleep">,
  functions: Pick<Functions, "tickAll" | "stop">,
  everySeconds: number,
): Promise<void> {
  let logged: ReadonlySet<string> = new Set();
  try {
    while (!signal.aborted) {
      const errors = await poll(functions);
      for (const { message, code, retryable } of errors)
        if (!logged.has(message)) console.log(JSON.stringify({ kind: retryable ? "retry" : "failed", code, message }));
      logged = new Set(errors.map(({ message }) => message));
      await clock.sleep(everySeconds, signal);
    }
  } finally {
    await functions.stop();
  }
}

/**
 * Runs the scheduled tick once. Returns transient errors, and errors that concern one run, one per message. Rejects with permanent errors of
 * the store or of the list of runs, and with any error that is not an MgrpoError.
 */
async function poll(functions: Pick<Functions, "tickAll">): Promise<MgrpoError[]> {
  const errors = new Map<string, MgrpoError>();
  const collect = (isFatal: (error: MgrpoError) => boolean) => (error: unknown) => {
    if (!isMgrpoError(error) || isFatal(error)) throw error;
    errors.set(error.message, error);
  };
  const onRunError = collect(({ code, retryable }) => code === "store-unreachable" && !retryable);
  // Any other error comes from listing the runs: without the list there is nothing to do.
  await functions.tickAll(onRunError).catch(collect(({ retryable }) => !retryable));
  return [...errors.values()];
}
