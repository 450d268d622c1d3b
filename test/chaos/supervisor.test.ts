/**
 * @file A death strikes at its own request, however many requests are in flight, or at its time; a sleep stops every process; a process that
 * keeps ending soon after its start is crash-looping.
 */
import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import type { Death } from "./schedule.ts";
import { Supervisor, type SupervisorOptions } from "./supervisor.ts";

const IDLE = ["-e", "setInterval(() => {}, 1000)"];

/** Its clock stands at 7 ms. */
const supervise = (options: Partial<SupervisorOptions>) =>
  new Supervisor({ deaths: [], sleeps: [], onSleep() {}, now: () => 7, log() {}, ...options });

test("a death after request 0 waits for the answer to request 0, even if request 1 is answered first", async () => {
  const death: Death = { process: "idle", request: 0, when: "after", signal: "kill", seconds: 0 };
  const supervisor = supervise({ deaths: [death] });
  supervisor.start({ name: "idle", command: IDLE, environment: {} });
  const afterFirst = supervisor.onRequest("idle");
  const afterSecond = supervisor.onRequest("idle");
  afterSecond();
  expect(supervisor.strikes).toEqual([]);
  afterFirst();
  expect(supervisor.strikes).toEqual([{ process: "idle", signal: "kill", seconds: 0, at: 7 }]);
  await supervisor.killAll();
});

test("a timed death strikes without a request, and the process is restarted", async () => {
  const death: Death = { process: "idle", atSeconds: 0.1, signal: "kill", seconds: 0 };
  const supervisor = supervise({ deaths: [death, { ...death, process: "other" }] });
  supervisor.start({ name: "idle", command: IDLE, environment: {} });
  await vi.waitFor(() => expect(supervisor.starts()).toEqual({ idle: 2 }), 60_000);
  expect(supervisor.strikes).toEqual([{ process: "idle", signal: "kill", seconds: 0, at: 7 }]);
  await supervisor.killAll();
});

/** States of the child processes whose command line has the marker, as /proc/<pid>/stat names them; T: stopped. */
function statesOf(marker: string): (string | undefined)[] {
  const pids = readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim().split(" ");
  return pids
    .filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(marker))
    .map((pid) => /\) (\S)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1]);
}

test.skipIf(process.platform !== "linux")("a sleep stops every process, and then each continues", async () => {
  const onSleep = vi.fn();
  const supervisor = supervise({ sleeps: [{ atSeconds: 0.5, minutes: 60 }], onSleep });
  const command = ["-e", "setInterval(() => {}, 1000) // sleeper"];
  for (const name of ["one", "two"]) supervisor.start({ name, command, environment: {} });
  const soon = { timeout: 60_000, interval: 20 };
  await vi.waitFor(() => expect(statesOf("// sleeper")).toEqual(["T", "T"]), soon);
  expect(onSleep).toHaveBeenCalledExactlyOnceWith(60);
  expect(supervisor.strikes).toEqual(["one", "two"].map((process) => ({ process, signal: "stop", seconds: 2, at: 7 })));
  await vi.waitFor(() => {
    const states = statesOf("// sleeper");
    expect(states).toHaveLength(2);
    expect(states).not.toContain("T");
  }, soon);
  await supervisor.killAll();
});

test("a process that ends soon after each of 40 starts in a row is crash-looping; one with longer lives is not", async () => {
  const crashing = { name: "crashing", command: ["-e", "process.exit(1)"], environment: {} };
  const short = supervise({});
  let time = 0;
  const long = supervise({ now: () => (time += 10_000) });
  for (const supervisor of [short, long]) supervisor.start(crashing);
  await vi.waitFor(() => expect(long.starts()["crashing"]).toBeGreaterThan(41), 60_000);
  await vi.waitFor(() => expect(short.crashLooping).toBe("crashing"), 60_000);
  expect(short.starts()).toEqual({ crashing: 40 });
  expect(long.crashLooping).toBeUndefined();
  await Promise.all([short.killAll(), long.killAll()]);
}, 120_000);
