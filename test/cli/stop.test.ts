/** @file What stops a command (a failure, Ctrl-C, the end of its parent process), and what the stop aborts. */
import { expect, test, vi } from "vitest";
import { stopWithin, unlessStopped, watchForStop } from "../../cli/local/stop.ts";
import { MgrpoError } from "../../core/errors.ts";

test("a failure of an inner stop leaves the outer stop as it is; a failure of the outer one, or Ctrl-C, aborts both", () => {
  const outer = watchForStop();
  const [first, second] = [stopWithin(outer), stopWithin(outer)];
  first.fail(new Error("its worker died"));
  expect([first, second, outer].map(({ signal }) => signal.aborted)).toEqual([true, false, false]);
  expect(() => first.rethrow()).toThrow("its worker died");
  outer.rethrow();
  outer.fail(new Error("the watch"));
  expect(second.signal.aborted).toBe(true);
  expect(() => second.rethrow()).toThrow("the watch");
  outer.dispose();

  const interrupted = watchForStop();
  const third = stopWithin(interrupted);
  process.emit("SIGINT");
  expect([third, interrupted].map(({ signal }) => signal.aborted)).toEqual([true, true]);
  third.rethrow();
  interrupted.dispose();
});

test("a Ctrl-C that npm signals again counts as one; a second Ctrl-C ends the process at once", () => {
  const exit = vi.spyOn(process, "exit").mockImplementation(() => undefined as never);
  const clock = vi.spyOn(performance, "now").mockReturnValue(1000);
  const stop = watchForStop();
  try {
    process.emit("SIGINT");
    clock.mockReturnValue(1050);
    process.emit("SIGINT");
    expect(stop.signal.aborted).toBe(true);
    expect(exit).not.toHaveBeenCalled();
    clock.mockReturnValue(2000);
    process.emit("SIGINT");
    expect(exit.mock.calls).toEqual([[130]]);
  } finally {
    stop.dispose();
    clock.mockRestore();
    exit.mockRestore();
  }
});

test("work that the user stops ends without an error, with Ctrl-C's exit code; any other failure is thrown", async () => {
  const stop = watchForStop();
  const canceled = () => Promise.reject(new MgrpoError("canceled", "the rollout was stopped"));
  try {
    expect(await unlessStopped(stop, Promise.resolve(1))).toBe(1);
    await expect(unlessStopped(stop, canceled())).rejects.toThrow("was stopped");
    process.emit("SIGINT");
    await expect(unlessStopped(stop, Promise.reject(new Error("a fault")))).rejects.toThrow("a fault");
    expect(await unlessStopped(stop, canceled())).toBeUndefined();
    expect(process.exitCode).toBe(130);
  } finally {
    process.exitCode = undefined;
    stop.dispose();
  }
});

test.each([
  ["ESRCH", [[1]]],
  ["EPERM", []],
])(
  "where a parent's id stays the same after its end, as on Windows, a command exits if no process has that id (ESRCH), and continues if it may not signal the process (EPERM): %s",
  (code, exits) => {
    vi.useFakeTimers();
    vi.stubEnv("MGRPO_PARENT", "1");
    const exit = vi.spyOn(process, "exit").mockImplementation(() => undefined as never);
    const kill = vi.spyOn(process, "kill").mockImplementation(() => {
      throw Object.assign(new Error(code), { code });
    });
    const stop = watchForStop();
    try {
      vi.advanceTimersByTime(600);
      expect(kill.mock.calls).toEqual([[process.ppid, 0]]);
      expect(exit.mock.calls).toEqual(exits);
    } finally {
      stop.dispose();
      vi.unstubAllEnvs();
      vi.useRealTimers();
      vi.restoreAllMocks();
    }
  },
);
