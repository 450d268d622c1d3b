/**
 * @file `npm run gpu -- --models <folder>`: everything that a GPU has to prove, in about ten minutes, and the figures for docs/gpu.md: what
 * `doctor` finds (gradient, log-probs and samples on each provider against the CPU), the tests of the providers, `bench gpu`, and one step of
 * recipes/gazetteer on the CPU and on each device. A part that fails is reported, and the others still run. Needs no network.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { parseArgs } from "node:util";
import { RunReport } from "../cli/run-report.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { DEVICES, type DeviceOutcome, figuresTable, stepArguments } from "./gpu-figures.ts";

/** Time limit of each command, after which it is killed. */
const MINUTES = 5;
const TESTS = ["test/engine/providers.test.ts", "test/engine/half-precision.test.ts"];

const { values: options } = parseArgs({
  options: {
    models: { type: "string" },
    devices: { type: "string", default: DEVICES.map(({ name }) => name).join(",") },
    set: { type: "string", multiple: true, default: [] },
    only: { type: "string", default: "doctor,tests,bench,step" },
  },
});
const parts = options.only.split(",");
const devices = options.devices.split(",").map((wanted) => {
  const device = DEVICES.find(({ name }) => name === wanted);
  if (!device) fail(`--devices ${wanted}: there are ${DEVICES.map(({ name }) => name).join(", ")}`);
  return device;
});

if (parts.includes("doctor")) show("doctor", mgrpo("doctor"));
if (parts.includes("tests"))
  show("tests", command("node_modules/.bin/vitest", "run", ...TESTS, "--testTimeout", "100000"));
if (parts.includes("bench")) show("bench gpu", mgrpo("bench", "gpu"));
if (parts.includes("step")) {
  const models =
    options.models ?? fail("--models <folder>: name the folder that `mgrpo sft recipes/gazetteer --to` wrote");
  const outcomes = new Map(devices.map((device) => [device.name, step(device, models)] as const));
  console.log(`\n## One step of recipes/gazetteer\n\n${figuresTable(outcomes)}`);
}

function step(device: (typeof DEVICES)[number], models: string): DeviceOutcome {
  const run = `gpu-${device.name}-${process.pid}`;
  const { status, stderr } = mgrpo(...stepArguments(device, run, models, options.set));
  if (status !== 0) return { failed: stderr.trim().split("\n").at(-1) || `no result in ${MINUTES} minutes` };
  const path = `runs/${run}/report.json`;
  const [summary] = parseJson(RunReport, readFileSync(path), path).perStep;
  rmSync(`runs/${run}`, { recursive: true });
  return summary ?? { failed: `${path} has no step` };
}

function mgrpo(...args: string[]) {
  return command(process.execPath, "dist/cli/mgrpo.js", ...args);
}

function command(program: string, ...args: string[]) {
  const options = { encoding: "utf8", timeout: MINUTES * 60_000, maxBuffer: 1 << 28 } as const;
  return spawnSync(program, args, options);
}

function show(title: string, { status, stdout, stderr }: ReturnType<typeof command>): void {
  const ended =
    status === 0 ? "" : `\n${stderr.trim()}\n(exit code ${status ?? `none: killed after ${MINUTES} minutes`})`;
  console.log(`\n## ${title}\n\n${stdout.trim()}${ended}`);
}

function fail(message: string): never {
  console.error(message);
  process.exit(1);
}
