/** @file The training step that `npm run gpu` runs on each device, and the table of its measurements. */

import type { AgentStats, TrainingStats, WorkerSeconds } from "../core/contracts/checkpoint.ts";
import type { ExecutionProvider, Precision } from "../core/contracts/engine.ts";

/** An execution provider and a precision of the compiled engine. */
export interface Device {
  readonly name: string;
  readonly provider: ExecutionProvider;
  readonly precision: Precision;
}

export const DEVICES: readonly Device[] = [
  { name: "cpu", provider: "cpu", precision: "fp32" },
  { name: "webgpu", provider: "webgpu", precision: "fp32" },
  { name: "cuda", provider: "cuda", precision: "fp32" },
  { name: "cuda-bf16", provider: "cuda", precision: "bf16" },
];

/** The arguments of `mgrpo` for one step of recipes/gazetteer with these models, without evaluations. `models`: a folder with one model per agent. */
export function stepArguments(device: Device, run: string, models: string, set: readonly string[]): string[] {
  const settings = ["main", "searcher"].flatMap((agent) => [
    `agents.${agent}.model=${models}/${agent}`,
    `agents.${agent}.engine.provider=${device.provider}`,
    `agents.${agent}.engine.precision=${device.precision}`,
  ]);
  const all = [...settings, "evaluation.suites=[]", ...set];
  return ["train", "recipes/gazetteer", "--steps", "1", "--run", run, ...all.flatMap((setting) => ["--set", setting])];
}

/** The fields of a step's summary in report.json that the table shows. */
export interface StepFigures {
  readonly seconds: number | null;
  readonly correct: number;
  /** By agent; null if it had no trajectory to train on. */
  readonly training: Readonly<Record<string, TrainingStats | AgentStats | null>>;
  readonly workers: Readonly<Record<string, WorkerSeconds>>;
}

/** A step on a device: its measurements, or why there are none. */
export type DeviceOutcome = StepFigures | { readonly failed: string };

const HEADER = [
  "device",
  "step (s)",
  "sampling (s)",
  "training (s)",
  "correct",
  "max abs(ratio - 1)",
  "sampler-trainer KL",
];

/** A Markdown table with a row per device. Seconds of sampling and training are sums over the agents' workers. */
export function figuresTable(outcomes: ReadonlyMap<string, DeviceOutcome>): string {
  const rows = [...outcomes].map(([name, outcome]) => [name, ...cellsOf(outcome)]);
  return [HEADER, HEADER.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function cellsOf(outcome: DeviceOutcome): string[] {
  if ("failed" in outcome)
    return [`failed: ${outcome.failed.replaceAll("|", "/")}`, ...Array(HEADER.length - 2).fill("")];
  const workers = Object.values(outcome.workers);
  const seconds = (phase: "sampling" | "training") =>
    workers.reduce((sum, worker) => sum + worker[phase], 0).toFixed(1);
  const trained = Object.values(outcome.training).flatMap((stats) =>
    stats && (stats.gradientNorm ?? 0) > 0 ? stats : [],
  );
  const largest = (values: readonly number[]) =>
    values.length === 0 ? "nothing to learn" : Math.max(...values).toExponential(1);
  return [
    outcome.seconds?.toFixed(1) ?? "",
    seconds("sampling"),
    seconds("training"),
    outcome.correct.toFixed(2),
    largest(trained.flatMap((stats) => stats.maxRatioDeviation ?? [])),
    largest(trained.flatMap((stats) => stats.kl ?? [])),
  ];
}
