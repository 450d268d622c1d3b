/** @file `mgrpo dispatch`: however polling ends, the functions are stopped. */
import { expect, test } from "vitest";
import { pollUntil } from "../../cli/dispatch.ts";
import { MgrpoError } from "../../core/errors.ts";
import { memoryStore } from "../fakes/memory-store.ts";

test("a permanent error stops the functions, and is thrown; an abort of the signal stops them too", async () => {
  const { clock } = memoryStore();
  const controller = new AbortController();
  let stops = 0;
  const stop = async () => {
    stops += 1;
  };
  const expired = new MgrpoError("store-unreachable", "the credentials have expired");
  const failing = { tickAll: () => Promise.reject(expired), stop };
  await expect(pollUntil(controller.signal, clock, failing, 1)).rejects.toThrow("the credentials have expired");
  expect(stops).toBe(1);
  await pollUntil(controller.signal, clock, { tickAll: async () => controller.abort(), stop }, 1);
  expect(stops).toBe(2);
});
