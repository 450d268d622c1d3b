/** @file A signal that follows several others: when it aborts, and that it leaves no listeners behind. */
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { linkSignals, withAnySignal } from "../../core/any-signal.ts";

const listenersOf = ({ signal }: AbortController) => getEventListeners(signal, "abort").length;

test.each([0, 1])("a linked signal aborts with the reason of source %i, and then follows none", (which) => {
  const sources = [new AbortController(), new AbortController()] as const;
  const { signal } = linkSignals(...sources.map((source) => source.signal));
  expect(signal.aborted).toBe(false);
  sources[which as 0 | 1].abort("enough");
  expect(signal.reason).toBe("enough");
  expect(sources.map(listenersOf)).toEqual([0, 0]);
});

test("a linked signal is aborted from the start if a source is", () => {
  const other = new AbortController();
  expect(linkSignals(other.signal, undefined, AbortSignal.abort("before")).signal.reason).toBe("before");
  expect(listenersOf(other)).toBe(0);
});

test("an unlinked signal no longer follows its source", () => {
  const source = new AbortController();
  const { signal, unlink } = linkSignals(source.signal);
  unlink();
  source.abort();
  expect(signal.aborted).toBe(false);
});

test("a source keeps no listener after the work, whether it succeeds or fails", async () => {
  const source = new AbortController();
  const during = async () => listenersOf(source);
  expect(await withAnySignal([source.signal, undefined], during)).toBe(1);
  expect(listenersOf(source)).toBe(0);
  const failing = withAnySignal([source.signal], () => Promise.reject(new Error("broken")));
  await expect(failing).rejects.toThrow("broken");
  expect(listenersOf(source)).toBe(0);
});

test("a source that aborts while the work runs cancels it", async () => {
  const source = new AbortController();
  const working = withAnySignal([source.signal], (signal) => {
    const canceled = new Promise<string>((resolve) => {
      signal.addEventListener("abort", () => resolve("canceled"));
    });
    source.abort();
    return canceled;
  });
  expect(await working).toBe("canceled");
});
