/**
 * @file `npm run gpu -- --models <folder>`: everything that a GPU has to prove, in about ten minutes, and the figures for docs/gpu.md: what
 * `doctor` finds (gradient, log-probs and samples on each provider against the CPU), the tests of the providers, `bench gpu`, and one step of
 * recipes/gazetteer on the CPU and on each device. A part that fails is reported, and the others still run. Needs no network.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { RunReport } from "../cli/run-report.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { isMgrpoError } from "../core/errors.ts";
import {
  COMMAND_MINUTES,
  type Device,
  type DeviceOutcome,
  failureOf,
  figuresTable,
  stepArguments,
} from "./gpu-figures.ts";
import { type GpuOptions, readGpuOptions } from "./gpu-options.ts";

const TESTS = ["test/engine/providers.test.ts", "test/engine/half-precision.test.ts"];

const { parts, devices, models, set } = optionsOrExit();
if (parts.has("doctor")) show("doctor", mgrpo("doctor"));
if (parts.has("tests")) show("tests", command("node_modules/.bin/vitest", "run", ...TESTS, "--testTimeout", "100000"));
if (parts.has("bench")) show("bench gpu", mgrpo("bench", "gpu"));
if (parts.has("step")) {
  const outcomes = new Map(devices.map((device) => [device.name, step(device)] as const));
  console.log(`\n## One step of recipes/gazetteer\n\n${figuresTable(outcomes)}`);
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
  const { status, stderr } = mgrpo(...stepArguments(device, run, models, set));
  if (status !== 0) return { failed: failureOf(status, stderr) };
  const path = `runs/${run}/report.json`;
  const [summary] = parseJson(RunReport, readFileSync(path), path).perStep;
  rmSync(`runs/${run}`, { recursive: true });
  return summary ?? { failed: `${path} has no step` };
}

function mgrpo(...args: string[]) {
  return command(process.execPath, "dist/cli/mgrpo.js", ...args);
}

function command(program: string, ...args: string[]) {
  const options = { encoding: "utf8", timeout: COMMAND_MINUTES * 60_000, maxBuffer: 1 << 28 } as const;
  return spawnSync(program, args, options);
}

function show(title: string, { status, stdout, stderr }: ReturnType<typeof command>): void {
  const ended =
    status === 0 ? "" : `\n${stderr.trim()}\n(exit code ${status ?? `none: killed after ${COMMAND_MINUTES} minutes`})`;
  console.log(`\n## ${title}\n\n${stdout.trim()}${ended}`);
}
