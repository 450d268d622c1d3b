/**
 * @file run.memory: the peak memory of all processes of the default run, evaluations included, in bytes; takes minutes. Sampled every
 * `EVERY_MILLISECONDS` as PSS, which counts a page shared by processes once in total. Linux only.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { builtModule } from "../built-module.ts";
import { print } from "./measurement.ts";
import { peakOf, requireProc } from "./process-tree.ts";

const EVERY_MILLISECONDS = 250;

requireProc("mgrpo bench run-memory");

const folder = mkdtempSync(join(tmpdir(), "mgrpo-bench-"));
try {
  const command = [fileURLToPath(builtModule("cli/mgrpo")), "train", "atlas", "--run", "memory"];
  const run = spawn(process.execPath, command, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  const peak = await peakOf([run], EVERY_MILLISECONDS);
  print("run.memory", peak.bytes, "bytes", { recipe: "atlas", processes: peak.processes });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
