/**
 * @file pipeline.rollouts: training rollouts per hour of the atlas team at `staleness` 0, 1 and 2, with one worker per agent and with two. Its tools
 * take seconds, with a long tail (tool-latency.ts). pipeline.gain: the median rate at 1 and at 2, relative to that at 0. Runs at different settings
 * alternate, because other processes change this machine's speed. Takes about half an hour.
 *
 * MGRPO_TINKER_TEAM=<main's url>,<searcher's url> puts both models on Tinker servers (docs/staleness.md), with one worker per agent. A first
 * run, which is not counted, makes the servers compile.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { builtModule } from "../built-module.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import { median, sum } from "../core/statistics.ts";
import { print } from "./measurement.ts";
import { temporaryFolder } from "./temporary-folder.ts";
import type { ToolLatency } from "./tool-latency.ts";

const STALENESS = [0, 1, 2];
const SERVERS = process.env["MGRPO_TINKER_TEAM"]?.split(",");
if (SERVERS && SERVERS.length !== 2)
  throw new MgrpoError("config-invalid", "MGRPO_TINKER_TEAM must be two URLs: <main's>,<searcher's>");
/** Per agent. */
const WORKERS = SERVERS ? [1] : [1, 2];
const REPETITIONS = 2;
/** The first steps, which trace graphs and warm caches, are left out. */
const WARM_UP_STEPS = 3;
/** A multiple of staleness + 1, the number of steps in flight, at each staleness. */
const MEASURED_STEPS = SERVERS ? 6 : 12;
const BATCH = { questionsPerStep: 4, rolloutsPerQuestion: 8 };
const LATENCY: ToolLatency = { medianSeconds: 1, sigma: 1 };

interface Setting {
  readonly staleness: number;
  /** Of each agent. */
  readonly workers: number;
}

const Report = z.object({
  perStep: z.array(
    z.object({
      seconds: z.number().nullable(),
      rollouts: z.int(),
      training: z.record(
        z.string(),
        z.object({ kl: z.number().optional(), truncatedFraction: z.number().optional() }).nullable(),
      ),
    }),
  ),
});
type Report = z.infer<typeof Report>;

const folder = temporaryFolder("bench");
writeRecipe(join(folder, "slow-tools"));
const settings = WORKERS.flatMap((workers) => STALENESS.map((staleness) => ({ staleness, workers })));
const rates = settings.map((): number[] => []);
if (SERVERS) train(folder, { staleness: 0, workers: 1 }, "warm-up");
for (let repetition = 0; repetition < REPETITIONS; repetition++) {
  for (const [i, setting] of settings.entries()) {
    const report = train(folder, setting, repetition);
    const perHour = rolloutsPerHour(report);
    rates[i]?.push(perHour);
    const config = { recipe: "atlas", ...BATCH, latency: LATENCY, ...setting, repetition, servers: SERVERS };
    const stale = { kl: worst(report, "kl"), truncated: worst(report, "truncatedFraction") };
    print("pipeline.rollouts", perHour, "rollouts/hour", { ...config, ...stale });
  }
}
const medians = rates.map(median);
for (const [i, { staleness, workers }] of settings.entries()) {
  if (staleness === 0) continue;
  const base = medians[settings.findIndex((other) => other.workers === workers)] ?? Number.NaN;
  print("pipeline.gain", (medians[i] ?? Number.NaN) / base, "x", { staleness, workers, repetitions: REPETITIONS });
}

/** The atlas recipe with slow tools, as a user's own recipe. */
function writeRecipe(path: string): void {
  const from = (module: string) => JSON.stringify(builtModule(module).href);
  mkdirSync(path);
  const parts = {
    recipe: `export { recipe } from ${from("recipes/atlas/recipe")};`,
    rewards: `export { rewards } from ${from("recipes/atlas/rewards")};`,
    tools:
      `import { tools as fast } from ${from("recipes/atlas/tools")};\n` +
      `import { withLatency } from ${from("bench/tool-latency")};\n` +
      `export const tools = withLatency(fast, ${JSON.stringify(LATENCY)});`,
  };
  for (const [part, text] of Object.entries(parts)) writeFileSync(join(path, `${part}.mjs`), `${text}\n`);
}

/**
 * All runs use truncated importance sampling (`algorithm.tisCap`), at staleness 0 too. So runs with equal `workers` differ only in `staleness`, and
 * in the number of steps after the measured ones.
 */
function train(cwd: string, { staleness, workers }: Setting, repetition: number | "warm-up"): Report {
  const run = `n${staleness}-w${workers}-${repetition}`;
  const perAgent = Object.fromEntries(["main", "searcher"].map((agent) => [`agents.${agent}.workers`, workers]));
  const settings = {
    ...BATCH,
    ...perAgent,
    ...onServers(),
    staleness,
    "algorithm.tisCap": 2,
    "evaluation.suites": "[]",
  };
  const set = Object.entries(settings).flatMap(([path, value]) => ["--set", `${path}=${value}`]);
  // The last `staleness` steps are not measured: no later step is sampled alongside them.
  const steps = String(WARM_UP_STEPS + MEASURED_STEPS + staleness);
  const command = ["train", "./slow-tools", "--steps", steps, "--seed", "1", "--run", run, ...set];
  execFileSync(process.execPath, [fileURLToPath(builtModule("cli/mgrpo")), ...command], {
    cwd,
    stdio: ["ignore", "ignore", "inherit"],
  });
  return parseJson(Report, readFileSync(join(cwd, "runs", run, "report.json")), "report.json");
}

/** The limits leave room for a server that compiles. */
function onServers(): Record<string, string | number> {
  if (!SERVERS) return {};
  const perAgent = ["main", "searcher"].flatMap((agent, i) => [
    [`agents.${agent}.policy`, `tinker:${SERVERS[i]}`],
    [`agents.${agent}.optimizer.maxGradientNorm`, "null"],
    [`agents.${agent}.lora`, '{"rank":8}'],
  ]);
  return { ...Object.fromEntries(perAgent), "limits.rolloutSeconds": 3600, "limits.invocationSeconds": 1800 };
}

function rolloutsPerHour({ perStep }: Report): number {
  const measured = perStep.slice(WARM_UP_STEPS, WARM_UP_STEPS + MEASURED_STEPS);
  const rollouts = sum(measured.map((step) => step.rollouts));
  const seconds = sum(measured.map((step) => step.seconds ?? Number.NaN));
  return Math.round((3600 * rollouts) / seconds);
}

function worst({ perStep }: Report, of: "kl" | "truncatedFraction"): number {
  return Math.max(...perStep.flatMap(({ training }) => Object.values(training).map((stats) => stats?.[of] ?? 0)));
}
