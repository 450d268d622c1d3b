/**
 * @file `npm run gpu -- --models <folder>`: checks a GPU, in about ten minutes, and prints the figures for docs/gpu.md: what
 * `doctor` finds (gradient, log-probs and samples on each provider against the CPU), the tests of the providers, `bench gpu`, and one step of
 * recipes/gazetteer on each device of `--devices` (by default all, the CPU included). A part that fails is reported, and the others still run; the
 * exit code is then 1. Needs no network.
 */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { RunReport } from "../cli/run-report.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { isMgrpoError } from "../core/errors.ts";
import { type CommandResult, failureOf, runCommand } from "./gpu-command.ts";
import { type Device, type DeviceOutcome, figuresTable, stepArguments } from "./gpu-figures.ts";
import { type GpuOptions, readGpuOptions } from "./gpu-options.ts";

const TESTS = ["test/engine/providers.test.ts", "test/engine/half-precision.test.ts"];

const { parts, devices, models, set } = optionsOrExit();
if (parts.has("doctor")) show("doctor", mgrpo("doctor"));
if (parts.has("tests")) {
  // Otherwise cuBLAS rounds the inputs of fp32 products to TF32, and the results differ from those of the CPU.
  const vitest = ["NVIDIA_TF32_OVERRIDE=0", "node_modules/.bin/vitest", "run", ...TESTS, "--testTimeout", "100000"];
  show("tests", runCommand("env", vitest));
}
if (parts.has("bench")) show("bench gpu", mgrpo("bench", "gpu"));
if (parts.has("step")) {
  const outcomes = new Map(devices.map((device) => [device.name, step(device)] as const));
  console.log(`\n## One step of recipes/gazetteer\n\n${figuresTable(outcomes)}`);
  if ([...outcomes.values()].some((outcome) => "failed" in outcome)) process.exitCode = 1;
}

function optionsOrExit(): GpuOptions {
  try {
    return readGpuOptions(process.argv.slice(2));
  } catch (error) {
    if (!isMgrpoError(error)) throw error;
    console.error(error.message);
    process.exit(1);
  }
}

function step(device: Device): DeviceOutcome {
  const run = `gpu-${device.name}-${process.pid}`;
  const result = mgrpo(...stepArguments(device, run, models, set));
  if (result.status !== 0) return { failed: failureOf(result) };
  const path = `runs/${run}/report.json`;
  if (!existsSync(path)) return { failed: `${path} is missing` };
  const [summary] = parseJson(RunReport, readFileSync(path), path).perStep;
  if (!summary) return { failed: `${path} has no step` };
  rmSync(`runs/${run}`, { recursive: true });
  return summary;
}

function mgrpo(...args: string[]): CommandResult {
  return runCommand(process.execPath, ["dist/cli/mgrpo.js", ...args]);
}

function show(title: string, { status, noExitReason, stdout, stderr }: CommandResult): void {
  if (status !== 0) process.exitCode = 1;
  const failure = status === 0 ? "" : `\n${stderr.trim()}\n(${noExitReason ?? `exit code ${status}`})`;
  console.log(`\n## ${title}\n\n${stdout.trim()}${failure}`);
}
