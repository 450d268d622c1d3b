/** @file A process that shares a processor with others is starved; one that sleeps is not. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Starvation, StarvationMeter, starvedSeconds } from "./starvation.ts";

const BUSY = "for (;;);";
const isLinux = process.platform === "linux";

test.runIf(isLinux)("two busy processes on one processor wait for each other", async () => {
  const processor = /^Cpus_allowed_list:\s*(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0";
  const children = [BUSY, BUSY, "setInterval(() => {}, 1000)"].map((code) =>
    spawn("taskset", ["-c", processor, process.execPath, "-e", code], { stdio: "ignore" }),
  );
  const pids = new Map(children.map(({ pid = 0 }, i) => [`process-${i}`, pid]));
  const meter = new StarvationMeter(
    () => pids,
    () => performance.now(),
  );
  await pause(4500);
  meter.stop();
  for (const child of children) child.kill("SIGKILL");
  const secondsOf = (name: string) =>
    starvedSeconds(meter.measured()?.filter(({ process }) => process === name) ?? [], 0, Number.POSITIVE_INFINITY);
  // Three periods of a second or more. Other work on that processor makes them wait longer.
  expect(secondsOf("process-0") + secondsOf("process-1")).toBeGreaterThan(2);
  expect(secondsOf("process-2")).toBeLessThan(Math.min(secondsOf("process-0"), secondsOf("process-1")));
});

test("the process that waited longest counts, in the periods that overlap", () => {
  const period = (process: string, from: number, seconds: number): Starvation => ({
    ...{ process, from: from * 1000, to: (from + 1) * 1000, seconds },
  });
  const measured = [period("a", 0, 0.9), period("a", 1, 0.5), period("a", 2, 0.25), period("b", 1, 0.6)];
  expect(starvedSeconds(measured, 1000, 2000)).toBe(0.6);
  expect(starvedSeconds(measured, 1500, 2500)).toBe(0.75);
  expect(starvedSeconds(measured, 3000, 4000)).toBe(0);
});
