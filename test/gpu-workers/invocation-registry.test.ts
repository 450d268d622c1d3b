/** @file How long a sub-agent's worker keeps an invocation, and what draining does to those that have not ended. */
import { expect, test } from "vitest";
import type { InvocationReport, InvocationRequest } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { openInvocationRegistry } from "../../gpu-workers/invocations/registry.ts";

/** A registry whose conversations end when the test says so, or when they are canceled. */
function openTestRegistry(admits: () => Promise<boolean> = async () => true) {
  const running = new Map<string, { readonly end: () => void; readonly signal: AbortSignal }>();
  const registry = openInvocationRegistry({
    run: (id, _request, signal) =>
      new Promise((resolve, reject) => {
        running.set(id, { end: () => resolve({ answer: id } as InvocationReport), signal });
        signal.addEventListener("abort", () => reject(new MgrpoError("canceled", "stopped")));
      }),
    admits,
    whenReady: async () => {},
    whenOpen: async () => {},
    isLoadingOther: () => false,
    staleness: 1,
    invocationSeconds: 600,
    onFatal: (error) => expect.fail(String(error)),
  });
  const put = (id: string, step: number) => registry.put(id, { address: { step } } as InvocationRequest);
  const stateOf = async (id: string) => (await registry.wait(id, 0)).state;
  return { registry, running, put, stateOf };
}

test("a report is kept until an invocation is put whose step is more than `staleness` later; a running invocation is not dropped", async () => {
  const { registry, running, put, stateOf } = openTestRegistry();
  await put("ended", 0);
  running.get("ended")?.end();
  expect((await registry.wait("ended", 60)).state).toBe("done");
  await put("slow", 0);
  await put("next", 1);
  expect(await Promise.all(["ended", "slow"].map(stateOf))).toEqual(["done", "running"]);
  await put("later", 2);
  expect(await Promise.all(["ended", "slow"].map(stateOf))).toEqual(["unknown", "running"]);
  running.get("slow")?.end();
  expect((await registry.wait("slow", 60)).state).toBe("done");
});

test("an invocation that is being admitted when the worker drains is refused, and does not run", async () => {
  let admit = (_admits: boolean) => {};
  const admitted = new Promise<boolean>((resolve) => {
    admit = resolve;
  });
  const { registry, running, put } = openTestRegistry(() => admitted);
  const late = put("late", 0);
  await registry.drain(60);
  admit(true);
  expect(await late).toBe("draining");
  expect(running.size).toBe(0);
});

test("an invocation that takes longer than the drain's time limit is canceled, and the drain ends once it has ended", async () => {
  const { registry, running, put, stateOf } = openTestRegistry();
  await put("slow", 0);
  await registry.drain(0.01);
  expect(running.get("slow")?.signal.aborted).toBe(true);
  expect(await stateOf("slow")).toBe("unknown");
});
