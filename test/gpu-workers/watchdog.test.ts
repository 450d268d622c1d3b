/** @file The watchdog: it kills a process whose main thread is blocked by synchronous code for too long, and no other. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { expect, type TestContext, test } from "vitest";
import { builtModule } from "../../built-module.ts";
import { maxBlockedSeconds } from "../../gpu-workers/liveness/watchdog.ts";
import { teamConfig } from "../fakes/scripted-team.ts";

/** Starts a watchdog with the given limit, reports that, runs the given code, and exits with code 0. */
const WATCHED = `
  const [, watchdog, seconds, code] = process.argv;
  const { startWatchdog } = await import(watchdog);
  const end = startWatchdog(Number(seconds), { run: "r", agent: "main" });
  const block = (seconds) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000);
  const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  console.log("watched");
  await new (async () => {}).constructor("block", "pause", "end", code)(block, pause, end);
  process.exit(0);
`;

/** Starts a watched process that runs the given code. The process is killed when the test finishes. */
async function startWatched(code: string, { onTestFinished }: TestContext, seconds = 3) {
  const watchdog = builtModule("gpu-workers/liveness/watchdog").href;
  const given = ["--input-type=module", "--eval", WATCHED, watchdog, String(seconds), code];
  const child = spawn(process.execPath, given, { stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  return child;
}

test.concurrent.for(["for (;;);", '/^(a+)+$/.test("a".repeat(60) + "b");'])(
  "a process that runs %s is killed, and its only log line says why",
  async (code, context) => {
    const child = await startWatched(code, context);
    const [log, end] = await Promise.all([text(child.stderr), once(child, "exit")]);
    expect(end).toEqual([null, "SIGKILL"]);
    expect(log.trim().split("\n")).toHaveLength(1);
    expect(JSON.parse(log)).toEqual({
      ...{ level: "error", what: "worker failed", run: "r", agent: "main", code: "deadline" },
      error: expect.stringMatching(
        /^synchronous code has blocked the main thread for 3 seconds.*liveness\.leaseSeconds$/,
      ),
    });
  },
);

test.concurrent.for<[string, string]>([
  ["blocked after its watchdog has ended", "await end(); block(5);"],
  ["blocked while its inspector is open", 'process.getBuiltinModule("inspector").open(0); await pause(0.7); block(5);'],
])("a process that is %s lives", async ([_what, code], context) => {
  const child = await startWatched(code, context);
  expect(await once(child, "exit")).toEqual([0, null]);
});

/** In seconds: so long that delays on a busy machine do not reach it. */
const LONG_LIMIT = 10;

test.concurrent("a process that is blocked repeatedly, each time for less than the limit, lives", async (context) => {
  // In total, the watchdog finds it silent more often than the limit allows in a row.
  const code = "for (let i = 0; i < 4; i++) { block(4.5); await pause(0.6); }";
  const child = await startWatched(code, context, LONG_LIMIT);
  expect(await once(child, "exit")).toEqual([0, null]);
});

test.concurrent("a process that is stopped and continued lives: the pause does not count", async (context) => {
  // Blocked when it is stopped and when it continues, so that the watchdog checks before the main thread's timers run.
  const child = await startWatched("block(14); await pause(3);", context, LONG_LIMIT);
  await pause(300);
  child.kill("SIGSTOP");
  await pause(13_000);
  child.kill("SIGCONT");
  expect(await once(child, "exit")).toEqual([0, null]);
});

test("the limit is the longest of a minute, three leases and, if an engine works in the main thread, its time limits", () => {
  const limits = { turnSeconds: 300, trainingSeconds: 900 };
  const limit = (leaseSeconds: number, policy: string) =>
    maxBlockedSeconds(teamConfig({ agents: { main: { model: "m", policy } }, limits, liveness: { leaseSeconds } }));
  expect(limit(10, "compiled")).toBe(60);
  expect(limit(60, "compiled")).toBe(180);
  expect(limit(10, "eager-gpu")).toBe(900);
  expect(limit(10, "recipe:mine")).toBe(900);
  expect(limit(600, "eager")).toBe(1800);
});
