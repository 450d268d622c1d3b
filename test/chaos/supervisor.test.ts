/** @file A death strikes at its own request, however many are under way, or at its time; a sleep stops every process. */

import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import type { Death } from "./schedule.ts";
import { Supervisor, type SupervisorOptions } from "./supervisor.ts";

const IDLE = ["-e", "console.error(process.pid); setInterval(() => {}, 1000)"];

/** Its clock stands at 7 ms. */
function supervise(options: Partial<SupervisorOptions>) {
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  return { supervisor: new Supervisor({ deaths: [], sleeps: [], onSleep() {}, now: () => 7, log, ...options }), lines };
}

test("a death after request 0 waits for the answer to request 0, while request 1 is under way", async () => {
  const death: Death = { process: "idle", request: 0, when: "after", signal: "kill", seconds: 0 };
  const { supervisor } = supervise({ deaths: [death] });
  supervisor.start({ name: "idle", command: IDLE, environment: {} });
  const afterFirst = supervisor.onRequest("idle");
  const afterSecond = supervisor.onRequest("idle");
  afterSecond();
  expect(supervisor.died).toEqual([]);
  afterFirst();
  expect(supervisor.died).toEqual([{ process: "idle", signal: "kill", seconds: 0, at: 7 }]);
  await supervisor.stopAll();
});

test("a death at a time strikes without a request, and the process is started again", async () => {
  const death: Death = { process: "idle", atSeconds: 0.1, signal: "kill", seconds: 0 };
  const { supervisor } = supervise({ deaths: [death, { ...death, process: "other" }] });
  supervisor.start({ name: "idle", command: IDLE, environment: {} });
  await vi.waitFor(() => expect(supervisor.starts()).toEqual({ idle: 2 }), 10_000);
  expect(supervisor.died).toEqual([{ process: "idle", signal: "kill", seconds: 0, at: 7 }]);
  await supervisor.stopAll();
});

const stateOf = (pid: number) => /\) (\S)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1];

test.skipIf(process.platform !== "linux")("while the machine sleeps, every process is stopped", async () => {
  const onSleep = vi.fn();
  const { supervisor, lines } = supervise({ sleeps: [{ atSeconds: 3, minutes: 60 }], onSleep });
  for (const name of ["one", "two"]) supervisor.start({ name, command: IDLE, environment: {} });
  await vi.waitFor(() => expect(lines).toHaveLength(2), 10_000);
  const pids = lines.map((line) => Number(line.split(": ")[1]));
  await vi.waitFor(() => expect(pids.map(stateOf)).toEqual(["T", "T"]), { timeout: 10_000, interval: 20 });
  expect(onSleep).toHaveBeenCalledExactlyOnceWith(60);
  await vi.waitFor(() => expect(pids.map(stateOf)).toEqual(["S", "S"]), { timeout: 10_000, interval: 20 });
  await supervisor.stopAll();
});
