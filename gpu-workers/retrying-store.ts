/**
 * @file A store that waits out an outage. Every call is safe to repeat (see core/training/writes.ts), so an outage
 * is waited for until the patience ends; then the error goes up and the worker stops with it. What no waiting mends (expired
 * credentials, a table that is gone) goes up at once. The only place that decides this.
 */
import pRetry from "p-retry";
import { isMgrpoError } from "../core/errors.ts";
import type { Store } from "../core/ports.ts";
import type { Log } from "./log.ts";

export function retryingStore(store: Store, patienceSeconds: number, log: Log): Store {
  const again = <T>(what: string, call: () => Promise<T>): Promise<T> =>
    pRetry(call, {
      retries: Number.POSITIVE_INFINITY,
      minTimeout: 100,
      maxTimeout: 2000,
      maxRetryTime: patienceSeconds * 1000,
      shouldRetry: ({ error }) => isMgrpoError(error, "store-unreachable") && error.retryable,
      onFailedAttempt: ({ error, attemptNumber }) => {
        if (attemptNumber === 1 && isMgrpoError(error, "store-unreachable") && error.retryable)
          log.warn("waiting for the store", { call: what, error: error.message });
      },
    });
  const { objects, table, clock } = store;
  return {
    objects: {
      commit: (key, body) => again(`commit ${key}`, () => objects.commit(key, body)),
      get: (key) => again(`get ${key}`, () => objects.get(key)),
      head: (key) => again(`head ${key}`, () => objects.head(key)),
      delete: (keys) => again("delete", () => objects.delete(keys)),
    },
    table: {
      get: (key) => again(`get ${key.sk}`, () => table.get(key)),
      getAll: (keys) => again(`get ${keys.length} items`, () => table.getAll(keys)),
      insert: (key, item) => again(`insert ${key.sk}`, () => table.insert(key, item)),
      update: (change) => again(`update ${change.key.sk}`, () => table.update(change)),
      query: (pk, prefix) => again(`query ${prefix}`, () => table.query(pk, prefix)),
    },
    clock: {
      monotonic: () => clock.monotonic(),
      storeTime: () => again("ask for the time", () => clock.storeTime()),
      sleep: (seconds, signal) => clock.sleep(seconds, signal),
    },
  };
}
