/**
 * @file A store that waits out outages. Every call is safe to repeat (core/training/writes.ts); at worst, a repeated payment counts twice, and
 * the sum is too high, never too low (numbered-payments.ts, api-spending.ts). So a call that fails with a retryable `store-unreachable` is
 * retried until `retrySeconds` have passed; then the error is thrown. Any other error (expired credentials, a missing table, a full disk) is
 * thrown at once.
 */
import pRetry from "p-retry";
import { isMgrpoError } from "../core/errors.ts";
import type { Store } from "../core/ports.ts";
import type { Log } from "./log.ts";

export function retryingStore({ objects, table, clock }: Store, retrySeconds: number, log: Log): Store {
  const retry = <T>(call: string, work: () => Promise<T>): Promise<T> =>
    pRetry(work, {
      retries: Number.POSITIVE_INFINITY,
      minTimeout: 100,
      maxTimeout: 2000,
      maxRetryTime: retrySeconds * 1000,
      shouldRetry: ({ error }) => isOutage(error),
      onFailedAttempt: ({ error, attemptNumber }) => {
        if (attemptNumber === 1 && isOutage(error)) log.warn("waiting for the store", { call, error: error.message });
      },
    });
  return {
    objects: {
      // The rest includes the body's known SHA-256, which saves hashing the body to sign the request.
      commit: (key, ...rest) => retry(`commit ${key}`, () => objects.commit(key, ...rest)),
      get: (key) => retry(`get ${key}`, () => objects.get(key)),
      head: (key) => retry(`head ${key}`, () => objects.head(key)),
      delete: (keys) => retry("delete", () => objects.delete(keys)),
    },
    table: {
      get: (key) => retry(`get ${key.sk}`, () => table.get(key)),
      getAll: (keys) => retry(`get ${keys.length} items`, () => table.getAll(keys)),
      insert: (key, item) => retry(`insert ${key.sk}`, () => table.insert(key, item)),
      update: (change) => retry(`update ${change.key.sk}`, () => table.update(change)),
      delete: (key) => retry(`delete ${key.sk}`, () => table.delete(key)),
      query: (pk, prefix) => retry(`query ${prefix}`, () => table.query(pk, prefix)),
    },
    clock: {
      monotonic: () => clock.monotonic(),
      storeTime: () => retry("read the store's time", () => clock.storeTime()),
      sleep: (seconds, signal) => clock.sleep(seconds, signal),
    },
  };
}

const isOutage = (error: unknown) => isMgrpoError(error, "store-unreachable") && error.retryable;
