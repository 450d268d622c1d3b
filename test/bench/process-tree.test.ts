/** @file Which processes of a tree are measured, and the peak of several processes. Only root can list a zombie's open files, so run this as another user too. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { peakOf, processTree } from "../../bench/process-tree.ts";

test.skipIf(process.platform !== "linux")("a child that has exited and is not reaped yet is left out", async () => {
  // `exec` replaces the shell with a process that does not wait for the shell's child.
  const parent = spawn("sh", ["-c", "sleep 600 & exec sleep 600"], { stdio: "ignore", detached: true });
  const { pid = 0 } = parent;
  const programs = () => processTree(pid).map((use) => use.arguments[0]);
  try {
    await expect.poll(programs).toEqual(["sleep", "sleep"]);
    const child = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8"));
    process.kill(child);
    await expect.poll(() => readFileSync(`/proc/${child}/stat`, "utf8")).toMatch(/\) Z /);
    expect(programs()).toEqual(["sleep"]);
  } finally {
    process.kill(-pid);
  }
});

test.skipIf(process.platform !== "linux")(
  "the peak of several processes counts all of them, and a failed one is reported",
  async () => {
    const readers = [1, 2].map(() => spawn("cat", { stdio: ["pipe", "ignore", "ignore"] }));
    await expect.poll(() => readers.map(({ pid = 0 }) => processTree(pid).length)).toEqual([1, 1]);
    const measured = peakOf(readers, 20);
    // After the first sample, however late the timers are.
    setTimeout(() => {
      for (const { stdin } of readers) stdin.end();
    }, 200);
    const { bytes, processes } = await measured;
    expect(processes).toBe(2);
    expect(bytes).toBeGreaterThan(0);
    const failing = ["exit 0", "sleep 0.1; exit 3"].map((script) => spawn("sh", ["-c", script], { stdio: "ignore" }));
    await expect(peakOf(failing, 20)).rejects.toThrow("a measured process ended with exit code 3");
  },
);
