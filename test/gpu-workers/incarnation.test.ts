/** @file How an incarnation of a worker ends: cleanly, or with an error if something hangs or fails. */
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import { type Incarnation, runIncarnation } from "../../gpu-workers/liveness/incarnation.ts";
import type { Membership } from "../../gpu-workers/liveness/membership.ts";
import { createLog } from "../../gpu-workers/log.ts";

const forever = () => new Promise<never>(() => {});
const stalled = new MgrpoError("deadline", "an engine call hangs");
const after = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));
const rejectAfter = (milliseconds: number) => after(milliseconds).then(() => Promise.reject(stalled));

/** Resolves when the signal aborts. */
const untilAborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));

/** A worker whose loop is in an engine call that never returns. */
function hanging(membership: Partial<Membership>, change: Partial<Incarnation> = {}): Incarnation {
  return {
    membership: {
      id: "w",
      end: undefined,
      beat: async (signal) => {
        await untilAborted(signal);
        return "stopped";
      },
      watchEngine: untilAborted,
      setInFlight: async () => {},
      setRolloutCounter() {},
      drain: async () => {},
      leave: async () => {},
      ...membership,
    },
    loops: () => [forever()],
    over: untilAborted,
    stop: new AbortController().signal,
    crashed: forever(),
    drain: async () => {},
    log: createLog(() => {}),
    ...change,
  };
}

test("a worker that drains while its engine hangs ends with `deadline`", async () => {
  const running = runIncarnation(hanging({ beat: () => rejectAfter(50) }, { stop: AbortSignal.timeout(10) }));
  await expect(running).rejects.toBe(stalled);
});

test("a worker that is declared dead while its engine hangs ends with `deadline`", async () => {
  const running = runIncarnation(hanging({ beat: async () => "lost", watchEngine: () => rejectAfter(20) }));
  await expect(running).rejects.toBe(stalled);
});

test("a worker that is declared dead while it drains, and whose engine hangs, ends with `deadline`", async () => {
  let drain = () => {};
  const drained = new Promise<void>((resolve) => {
    drain = resolve;
  });
  const membership: Partial<Membership> = {
    drain: async () => drain(),
    beat: () => drained.then(() => "lost"),
    watchEngine: () => drained.then(() => Promise.reject(stalled)),
  };
  const running = runIncarnation(hanging(membership, { stop: AbortSignal.abort() }));
  await expect(running).rejects.toBe(stalled);
});

test("a fatal error in an invocation ends a worker even while it drains", async () => {
  const crashed = rejectAfter(50);
  crashed.catch(() => {});
  const running = runIncarnation(hanging({}, { stop: AbortSignal.timeout(10), crashed, drain: forever }));
  await expect(running).rejects.toBe(stalled);
});

test("a worker says that it drains, finishes work for others, ends its loops, stops its heartbeats and leaves, in this order", async () => {
  const events: string[] = [];
  const note = (event: string) => async () => void events.push(event);
  const membership: Partial<Membership> = {
    drain: note("draining"),
    // Heartbeats stop before `leave`: a heartbeat between the read and the write of `leave` would make that write fail.
    beat: async (signal) => {
      await untilAborted(signal);
      events.push("heartbeats stopped");
      return "stopped";
    },
    leave: note("left"),
  };
  const loops = (signal: AbortSignal) => [untilAborted(signal).then(note("loops ended"))];
  const stop = AbortSignal.timeout(10);
  expect(await runIncarnation(hanging(membership, { loops, drain: note("drained"), stop }))).toBe("stopped");
  expect(events).toEqual(["draining", "drained", "loops ended", "heartbeats stopped", "left"]);
});

test("a loop that fails, even while the others end, is a crash: its error is thrown, and the worker does not leave", async () => {
  const bug = new TypeError("a bug");
  let hasLeft = false;
  const membership: Partial<Membership> = {
    leave: async () => {
      hasLeft = true;
    },
  };
  const atOnce = hanging(membership, { loops: () => [Promise.reject(bug)] });
  await expect(runIncarnation(atOnce)).rejects.toBe(bug);
  const loops = (signal: AbortSignal) => [untilAborted(signal).then(() => Promise.reject(bug))];
  const ending = hanging(membership, { loops, stop: AbortSignal.abort() });
  await expect(runIncarnation(ending)).rejects.toBe(bug);
  expect(hasLeft).toBe(false);
});

test("an incarnation that ends leaves no listener on the stop signal, which lasts as long as the process", async () => {
  const stop = new AbortController().signal;
  const end = await runIncarnation(hanging({ beat: async () => "lost" }, { loops: () => [], stop }));
  expect([end, getEventListeners(stop, "abort")]).toEqual(["lost", []]);
});
