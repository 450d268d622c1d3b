/**
 * @file run.memory: the peak memory of all processes of the default run, evaluations included, in bytes; takes minutes. Sampled every
 * `EVERY_MILLISECONDS` as PSS, which counts a page shared by processes once in total. Linux only.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { builtModule } from "../built-module.ts";
import { MgrpoError } from "../core/errors.ts";
import { print } from "./measurement.ts";

const EVERY_MILLISECONDS = 250;

if (!existsSync("/proc/self/smaps_rollup")) {
  console.error(
    "mgrpo: bench 'run-memory' reads /proc/<pid>/smaps_rollup, which this system lacks: run it on Linux 4.14 or newer",
  );
  process.exit(1);
}

const folder = mkdtempSync(join(tmpdir(), "mgrpo-bench-"));
try {
  const peak = await peakOf(folder);
  const config = { recipe: "atlas", processes: peak.processes };
  print("run.memory", peak.bytes, "bytes", config);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

interface MemoryUse {
  readonly bytes: number;
  readonly processes: number;
}

async function peakOf(cwd: string): Promise<MemoryUse> {
  const child = spawn(
    process.execPath,
    [fileURLToPath(builtModule("cli/mgrpo")), "train", "atlas", "--run", "memory"],
    {
      cwd,
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
  let peak: MemoryUse = { bytes: 0, processes: 0 };
  const timer = setInterval(() => {
    const now = child.pid === undefined ? peak : heldBy(child.pid);
    if (now.bytes > peak.bytes) peak = now;
  }, EVERY_MILLISECONDS);
  const [code] = await once(child, "exit");
  clearInterval(timer);
  if (code !== 0) throw new MgrpoError("canceled", `the run that was measured ended with exit code ${code}`);
  return peak;
}

/** Memory of a process and all its descendants. */
function heldBy(root: number): MemoryUse {
  const children = new Map<number, number[]>();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    // `pid (name) state parent ...`, and a name may contain anything.
    const parent = Number(/.*\) \S (\d+)/s.exec(read(`/proc/${pid}/stat`))?.[1]);
    children.set(parent, [...(children.get(parent) ?? []), Number(pid)]);
  }
  const family = [root];
  for (const pid of family) family.push(...(children.get(pid) ?? []));
  const sizes = family.map(
    (pid) => Number(/^Pss:\s+(\d+) kB/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0) * 1024,
  );
  return { bytes: sizes.reduce((total, size) => total + size, 0), processes: sizes.filter(Boolean).length };
}

/** Empty once the process is gone. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (/ENOENT|ESRCH/.test(String(error))) return "";
    throw error;
  }
}
