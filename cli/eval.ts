/**
 * @file `mgrpo eval`: a trained team on the held-out questions, on this machine. It is a run that never trains: team 0 is the team in
 * question, and one evaluation worker answers its jobs.
 */
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import colors from "picocolors";
import type { Arm, RunConfig } from "../core/contracts/config.ts";
import type { JobRecord } from "../core/contracts/records.ts";
import { MgrpoError } from "../core/errors.ts";
import { resolveConfig } from "../core/training/resolve.ts";
import { openRecipe } from "../recipes/registry.ts";
import { readJobs } from "./local/follow.ts";
import { prepareRun, readBases } from "./local/prepare.ts";
import { readConfig, runFolder } from "./local/run-folder.ts";
import { openSession } from "./local/session.ts";
import { watchForStop } from "./local/stop.ts";
import { evaluatorsOf, startWorkers } from "./local/workers.ts";
import { accuracy } from "./terminal/columns.ts";

export interface EvalOptions {
  readonly recipe: string;
  readonly arm?: Arm;
  readonly seed?: number;
  readonly set: readonly string[];
}

export async function evaluate(target: string, options: EvalOptions): Promise<void> {
  const config = await evaluationConfig(target, options);
  const recipe = await openRecipe(config.recipe);
  const bases = readBases(config);
  const directory = mkdtempSync(join(tmpdir(), "mgrpo-eval-"));
  const stop = watchForStop();
  try {
    const session = await openSession(join(directory, "cloud"), join(directory, "functions.log"));
    try {
      await prepareRun(session, config, () => bases, recipe.questions(config.seed));
      const token = randomBytes(24).toString("base64url");
      const environment = { ...session.environment, MGRPO_WORKER_TOKEN: token };
      const workers = startWorkers(evaluatorsOf(config), environment, directory);
      workers.failed.catch(stop.fail);
      const printed = new Set<string>();
      while (!stop.signal.aborted && printed.size < config.evaluation.suites.length) {
        for (const job of await readJobs(session.store, config.run)) {
          if (job.state !== "done" || printed.has(job.job)) continue;
          printed.add(job.job);
          print(job);
        }
        await session.store.clock.sleep(0.25, stop.signal);
      }
      await workers.stop();
      stop.rethrow();
    } finally {
      await session.close();
    }
  } finally {
    stop.dispose();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** The config of the run, or of the recipe, with the checkpoints in question as its base models. The budget was its training's. */
async function evaluationConfig(target: string, options: EvalOptions): Promise<RunConfig> {
  const folder = runFolder(target);
  const stored = existsSync(folder.config) ? readConfig(folder) : undefined;
  const checkpoints = stored ? folder.checkpoints : resolve(target);
  if (!existsSync(checkpoints)) {
    const hint = stored ? "the run has not finished" : "give a run's name, or a folder with one checkpoint per agent";
    throw new MgrpoError("not-found", `no checkpoints at ${checkpoints}: ${hint}`);
  }
  const { recipe: name, arm, seed } = { ...stored, ...options, ...(stored && { recipe: stored.recipe }) };
  const recipe = await openRecipe(name);
  const advised = stored ? { ...recipe, config: () => stored } : recipe;
  const choice = { run: "eval", recipe: name, arm: arm ?? "mgrpo", seed: seed ?? 1 };
  const agents = Object.keys(resolveConfig(advised, choice).agents);
  const models = agents.map((agent) => `agents.${agent}.model=${join(checkpoints, agent)}`);
  const config = resolveConfig(advised, { ...choice, set: ["budget={}", ...options.set, ...models, "steps=1"] });
  if (config.evaluation.suites.length > 0) return config;
  throw new MgrpoError("config-invalid", `recipe '${name}' has no evaluation.suites: add one`);
}

function print(job: JobRecord): void {
  const { suite, n, correct, runs, interval } = job;
  if (process.stdout.isTTY) {
    console.log(`  ${suite.padEnd(20)}${colors.green(accuracy(job))}  ${colors.dim(`${correct} of ${n}`)}`);
    return;
  }
  console.log(JSON.stringify({ kind: "evaluation", suite, n, correct, ...interval, runs }));
}
