/**
 * @file What a write does to a lease. A worker's heartbeats extend its lease until the worker is declared dead. The record of a verdict says
 * until when its claim, or the pause after a failure, lasts.
 */
import type { LeaseChange } from "./history.ts";
import type { Attribute, StoreWrite } from "./writes.ts";

/** @param storeTime the store's time in the answer, in ms. */
export function leaseChange(write: StoreWrite, storeTime: number): LeaseChange | undefined {
  if (write.kind === "put") return verdictStored(write.key);
  const [, kind] = / (WORKER|JUDGE)#/.exec(write.key) ?? [];
  if (kind === "WORKER") return workerChange(write);
  if (kind !== "JUDGE") return undefined;
  // Rewards that cost nothing are not claimed: their record has no token.
  if (write.kind === "insert") {
    const { token, heldUntil } = write.item;
    return token && held(write.key, heldUntil, storeTime, true);
  }
  return held(write.key, write.set.get("heldUntil"), storeTime, write.set.has("token"));
}

function workerChange(write: Exclude<StoreWrite, { kind: "put" }>): LeaseChange | undefined {
  const name = write.key;
  if (write.kind === "insert") return { name, act: "grant" };
  if (write.set.get("state")?.S === "dead") return { name, act: "end" };
  return write.added.has("counter") ? { name, act: "grant" } : undefined;
}

function held(
  name: string,
  heldUntil: Attribute | undefined,
  storeTime: number,
  isClaim: boolean,
): LeaseChange | undefined {
  if (heldUntil === undefined) return undefined;
  const until = Number(heldUntil.N);
  if (until === 0) return { name, act: "release" };
  // A write can take effect after its `heldUntil`: the machine slept, or the write is an echo. It then holds for 0 s.
  const seconds = Math.max(0, until - storeTime) / 1000;
  return { name, act: "grant", seconds, ...(isClaim && { claim: { madeAt: storeTime, heldUntil: until } }) };
}

/** Nobody asks for a verdict that exists. */
function verdictStored(key: string): LeaseChange | undefined {
  const [, run, subject, judge] = /^runs\/([^/]+)\/verdicts\/([^-/]+)-([^/]+)\.json$/.exec(key) ?? [];
  return run === undefined ? undefined : { name: `VERDICT#${run}#${subject} JUDGE#${judge}`, act: "end" };
}
