/**
 * @file `npm run gpu`: the step for each device has a valid config of the gazetteer recipe, and the table shows its measurements or why it
 * failed. Invalid options are refused before anything runs. A failure shows in the exit code.
 */
import { expect, test } from "vitest";
import { failureOf, runCommand } from "../../bench/gpu-command.ts";
import { DEVICES, type DeviceOutcome, figuresTable, stepArguments } from "../../bench/gpu-figures.ts";
import { readGpuOptions } from "../../bench/gpu-options.ts";
import { nodeArguments } from "../../cli/local/workers.ts";
import type { TrainingStats } from "../../core/contracts/checkpoint.ts";
import { summarizeStep } from "../../core/monitoring/step-summary.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { recipe } from "../../recipes/gazetteer/recipe.ts";
import { config, groups, manifests, step } from "../cli/records.ts";

test.each(DEVICES)("the arguments of a step on $name put both agents on that device", (device) => {
  const args = stepArguments(device, "gpu", "models/gazetteer", ["questionsPerStep=2"]);
  const set = args.flatMap((argument, i) => (args[i - 1] === "--set" ? [argument] : []));
  const resolved = resolveConfig(recipe, { run: "gpu", seed: 1, arm: "mgrpo", set });
  expect(resolved).toMatchObject({ questionsPerStep: 2, evaluation: { suites: [] } });
  for (const [name, { model, engine }] of Object.entries(resolved.agents)) {
    expect(model).toBe(`models/gazetteer/${name}`);
    expect(engine).toMatchObject({ provider: device.provider, precision: device.precision });
  }
});

test("the table has a row per device; that of a device that failed says why", () => {
  const summary = summarizeStep(config, step, groups, new Map(manifests.map((one) => [one.agent, one])), 12.34);
  const untrained = {
    ...summary,
    training: { main: null, searcher: { ...manifests[0]?.stats, gradientNorm: 0 } as TrainingStats },
  };
  const outcomes = new Map<string, DeviceOutcome>([
    ["cpu", summary],
    ["webgpu", untrained],
    ["cuda", { failed: "no libcudart | here" }],
  ]);
  const [, , cpu, webgpu, cuda] = figuresTable(outcomes)
    .split("\n")
    .map((row) => row.split("|").map((cell) => cell.trim()));
  // Two workers with 1 s of sampling and 0.5 s of training each.
  expect(cpu?.slice(1, 5)).toEqual(["cpu", "12.3", "2.0", "1.0"]);
  expect(webgpu?.slice(6, 8)).toEqual(["nothing to learn", "nothing to learn"]);
  expect(cuda?.slice(1, 3)).toEqual(["cuda", "failed: no libcudart / here"]);
  expect(new Set([cpu, webgpu, cuda].map((row) => row?.length))).toEqual(new Set([9]));
});

test("a failed command is reported with why it has no exit code, else with its last line on stderr, else with its exit code", () => {
  const failure = (script: string, minutes?: number) =>
    failureOf(runCommand(process.execPath, ["--eval", script], minutes));
  // On SIGTERM it ends with an exit code, as a run that has drained its workers does.
  const slow = "process.on('SIGTERM', () => process.exit(130)); console.error('sampling'); setInterval(() => {}, 1000)";
  expect(failure(slow, 0.02)).toBe("killed after 0.02 minutes");
  expect(failure("console.error('sampling'); process.kill(process.pid, 'SIGKILL')")).toBe("killed by SIGKILL");
  expect(failure("console.error('a warning\\nmgrpo: no model'); process.exitCode = 1")).toBe("mgrpo: no model");
  expect(failure("process.exit(2)")).toBe("exit code 2");
  expect(failureOf(runCommand("no-such-program", []))).toMatch(/no-such-program ENOENT/);
});

test("an unknown option, part or device is refused, and so is a step without models", () => {
  expect(() => readGpuOptions(["--model", "models/gazetteer"])).toThrow(/'--model'.*\(options: --models, --devices/);
  expect(() => readGpuOptions(["--only", "doctor,stpe"])).toThrow(/^--only stpe: use one of doctor, tests, bench, /);
  expect(() => readGpuOptions(["--only", "bench", "--devices", "gpu"])).toThrow(/^--devices gpu: use one of cpu, /);
  expect(() => readGpuOptions([])).toThrow(/^--models <folder>/);
  expect(readGpuOptions(["--only", "bench,tests"])).toMatchObject({ parts: new Set(["bench", "tests"]), set: [] });
  expect(readGpuOptions(["--models", "models/gazetteer"])).toMatchObject({ devices: DEVICES });
});

test("a device that is named twice is measured once", () => {
  const { devices } = readGpuOptions(["--only", "bench", "--devices", "cuda,cpu,cuda"]);
  expect(devices.map(({ name }) => name)).toEqual(["cuda", "cpu"]);
});

test("a step that fails is a row of the table, and the command fails", () => {
  const args = ["--only", "step", "--devices", "cpu", "--models", "none", "--set", "nosuch=1"];
  const { status, stdout } = runCommand(process.execPath, [...nodeArguments("bench/gpu-report"), ...args]);
  expect(stdout).toContain("| cpu | failed: ");
  expect(status).toBe(1);
});
