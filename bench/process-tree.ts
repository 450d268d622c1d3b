/** @file What a process and its descendants hold, read from /proc: Linux only. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { MgrpoError } from "../core/errors.ts";
import { sum } from "../core/statistics.ts";

export interface ProcessUse {
  readonly arguments: readonly string[];
  /** Proportional set size: a page that several processes share counts once in total. */
  readonly bytes: number;
  /** The largest resident set size so far: shared pages count in full. */
  readonly peakBytes: number;
  readonly openFiles: number;
}

/** Throws `config-invalid` on a system without /proc/<pid>/smaps_rollup. */
export function requireProc(command: string): void {
  if (existsSync("/proc/self/smaps_rollup")) return;
  const message = `${command} reads /proc/<pid>/smaps_rollup, which this system lacks: run it on Linux 4.14 or newer`;
  throw new MgrpoError("config-invalid", message);
}

export interface PeakUse {
  readonly bytes: number;
  /** How many were alive at the peak. */
  readonly processes: number;
}

/**
 * Samples the memory of child processes and their descendants every `everyMilliseconds` until all children have ended. Returns the largest sum of a
 * sample. Rejects if a child fails.
 */
export async function peakOf(children: readonly ChildProcess[], everyMilliseconds: number): Promise<PeakUse> {
  let peak: PeakUse = { bytes: 0, processes: 0 };
  const timer = setInterval(() => {
    const tree = children.flatMap(({ pid }) => (pid === undefined ? [] : processTree(pid)));
    const bytes = sum(tree.map((use) => use.bytes));
    if (bytes > peak.bytes) peak = { bytes, processes: tree.length };
  }, everyMilliseconds);
  try {
    const ends = await Promise.all(children.map((child) => once(child, "exit")));
    for (const [code, signal] of ends) {
      if (code === 0) continue;
      throw new MgrpoError("process-failed", `a measured process ended with ${signal ?? `exit code ${code}`}`);
    }
    return peak;
  } finally {
    clearInterval(timer);
  }
}

/** The live processes of the tree, the root first. Zombies, which hold nothing, are left out. */
export function processTree(root: number): ProcessUse[] {
  const children = new Map<number, number[]>();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    // `pid (name) state parent ...`, and a name may contain anything.
    const parent = Number(/.*\) \S (\d+)/s.exec(read(`/proc/${pid}/stat`))?.[1]);
    children.set(parent, [...(children.get(parent) ?? []), Number(pid)]);
  }
  const family = [root];
  for (const pid of family) family.push(...(children.get(pid) ?? []));
  return family.map(useOf).filter(({ bytes }) => bytes > 0);
}

function useOf(pid: number): ProcessUse {
  const kilobytes = Number(/^Pss:\s+(\d+) kB/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0);
  // A zombie has no memory, and only root may list its open files.
  const openFiles = kilobytes > 0 ? (unlessGone(() => readdirSync(`/proc/${pid}/fd`).length) ?? 0) : 0;
  const peak = Number(/^VmHWM:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0);
  const [bytes, peakBytes] = [1024 * kilobytes, 1024 * peak];
  return { arguments: read(`/proc/${pid}/cmdline`).split("\0"), bytes, peakBytes, openFiles };
}

const read = (path: string): string => unlessGone(() => readFileSync(path, "utf8")) ?? "";

/** Undefined once the process is gone. */
function unlessGone<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch (error) {
    if (/ENOENT|ESRCH/.test(String(error))) return undefined;
    throw error;
  }
}
