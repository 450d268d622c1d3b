/** @file `mgrpo bench`: the error says how a benchmark that failed ended. */
import { type ChildProcess, spawn } from "node:child_process";
import { EventEmitter } from "node:events";
import { expect, test, vi } from "vitest";
import { bench } from "../../cli/bench.ts";

vi.mock("node:child_process", async (original) => {
  const actual = await original<typeof import("node:child_process")>();
  return { ...actual, spawn: vi.fn(actual.spawn) };
});

test.each([
  [null, "SIGKILL", "benchmark 'memory' was killed by SIGKILL"],
  [2, null, "benchmark 'memory' ended with exit code 2"],
] as const)("the error says how a failed benchmark ended: exit code %s, signal %s", async (code, signal, message) => {
  vi.mocked(spawn).mockImplementationOnce(() => {
    const child = new EventEmitter();
    setImmediate(() => child.emit("exit", code, signal));
    return child as unknown as ChildProcess;
  });
  await expect(bench(["memory"])).rejects.toMatchObject({ code: "process-failed", message });
});
