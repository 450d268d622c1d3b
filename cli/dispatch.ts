/**
 * @file `mgrpo dispatch`: the functions wherever there is no Lambda, against the store that the environment names. It needs no S3
 * events: each look at the store does what an event would have done.
 */

import { openAwsStore } from "../adapters/aws/store.ts";
import { isMgrpoError } from "../core/errors.ts";
import { composeFunctions } from "../functions/compose.ts";
import { storeNames } from "./store-names.ts";

export interface DispatchOptions {
  /** Seconds between two looks. */
  readonly every: number;
}

export async function dispatch({ every }: DispatchOptions): Promise<void> {
  const names = storeNames("dispatch");
  const store = openAwsStore(names);
  const functions = composeFunctions(store);
  const stop = new AbortController();
  process.once("SIGINT", () => stop.abort()).once("SIGTERM", () => stop.abort());
  console.log(JSON.stringify({ kind: "dispatching", ...names, every }));
  let told = "";
  while (!stop.signal.aborted) {
    try {
      await functions.tickAll();
      told = "";
    } catch (error) {
      // An outage passes; the next look finds everything that this one missed. It is told once.
      if (!isMgrpoError(error) || !error.retryable) throw error;
      if (error.message !== told)
        console.log(JSON.stringify({ kind: "retry", code: error.code, message: error.message }));
      told = error.message;
    }
    await store.clock.sleep(every, stop.signal);
  }
  store.close();
}
