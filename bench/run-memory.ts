/**
 * @file run.memory: the peak memory of all processes of the default run, evaluations included, in bytes; takes minutes. Sampled every
 * `EVERY_MILLISECONDS` as PSS, which counts a page shared by processes once in total. Linux only.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { builtModule } from "../built-module.ts";
import { MgrpoError } from "../core/errors.ts";
import { sum } from "../core/statistics.ts";
import { print } from "./measurement.ts";
import { processTree, requireProc } from "./process-tree.ts";

const EVERY_MILLISECONDS = 250;

requireProc("mgrpo bench run-memory");

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
  const [code, signal] = await once(child, "exit");
  clearInterval(timer);
  const end = signal ?? `exit code ${code}`;
  if (code !== 0) throw new MgrpoError("canceled", `the run that was measured ended with ${end}`);
  return peak;
}

/** Memory of a process and all its descendants. */
function heldBy(root: number): MemoryUse {
  const tree = processTree(root);
  return { bytes: sum(tree.map(({ bytes }) => bytes)), processes: tree.length };
}
