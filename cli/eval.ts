/** @file `mgrpo eval`: a team on its run's suites, on one suite that is named, or every checkpoint that comes to a place. On this machine. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import colors from "picocolors";
import * as z from "zod";
import type { Arm, RunConfig, RunConfigInput } from "../core/contracts/config.ts";
import { EvaluationSuite } from "../core/contracts/evaluation-suite.ts";
import { isEndpointPolicy } from "../core/contracts/language-model.ts";
import type { JobRecord } from "../core/contracts/records.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Recipe } from "../core/recipe.ts";
import { chosenBy, resolveConfig } from "../core/training/resolve-config.ts";
import { extendsBudget } from "../core/training/run-budget.ts";
import { openRecipe } from "../recipes/registry.ts";
import { asAgents, ENDPOINT_ARM, ENDPOINT_RECIPE, type EndpointTeam, readEndpoint } from "./endpoint-team.ts";
import { readBases } from "./local/base-models.ts";
import { describeLosses, evaluateTeam, type FinishedJob, resultOf } from "./local/evaluate-team.ts";
import { refuseMissingKey, refuseMissingTools } from "./local/preflight.ts";
import { findRun, readConfig } from "./local/run-folder.ts";
import { watchForStop } from "./local/stop.ts";
import { readQuestions } from "./questions.ts";
import { extensionOf, type ResumeOptions } from "./resume.ts";
import { chooseSuite, type SuiteOptions } from "./suite/choose.ts";
import { advisedBy, isTeamFile, readTeamFile, untrained } from "./team-file.ts";
import { accuracy } from "./terminal/columns.ts";
import type { WatchOptions } from "./watch.ts";

/** Defaults of `--every` and `--results`. */
const EVERY_SECONDS = 10;
const RESULTS = "evaluations";

export interface EvalOptions {
  readonly recipe?: string;
  readonly arm?: Arm;
  readonly seed?: number;
  readonly judge?: string;
  readonly set: readonly string[];
}

/** Of a suite that its tools' budget has ended. */
type ExtendOptions = Pick<ResumeOptions, "extendToolCalls" | "extendToolUsd">;

type AllOptions = EvalOptions &
  ExtendOptions &
  SuiteOptions &
  Partial<WatchOptions> & { readonly watch?: string; readonly suite?: string };

/** One team, or, with `watch`, every checkpoint that comes to a place. An option that the other of the two takes is refused. */
export async function evaluateOrWatch(target: string | undefined, given: AllOptions): Promise<void> {
  const { watch: place, suite, team, every, results, data, criteria, runs, attachments, ...rest } = given;
  const ofSuite = Object.fromEntries(
    Object.entries({ data, criteria, runs, attachments }).filter(([, value]) => value !== undefined),
  ) satisfies SuiteOptions;
  const { extendToolCalls, extendToolUsd, ...options } = rest;
  const extension = extensionOf(rest);
  if (place === undefined) {
    if (team !== undefined || every !== undefined) {
      throw new MgrpoError("config-invalid", "--team and --every go with --watch <place>: add it");
    }
    if (target === undefined) {
      throw new MgrpoError(
        "config-invalid",
        "name a run, a folder, a team's file or a model behind an API to evaluate, or a place with --watch",
      );
    }
    if (suite !== undefined) {
      const { evaluateSuite } = await import("./suite/evaluate.ts");
      const { config, recipe } = await evaluationConfig(target, options, { name: suite, ...ofSuite });
      return evaluateSuite(target, config, recipe, results ?? RESULTS, extension);
    }
    if (extendsBudget(extension)) {
      throw new MgrpoError(
        "config-invalid",
        "--extend-tool-calls and --extend-tool-usd go on with an evaluation that is kept: add --suite <name>, or set a higher tools.budget.run",
      );
    }
    const alone = results === undefined ? Object.keys(ofSuite) : ["results"];
    if (alone.length > 0) throw new MgrpoError("config-invalid", `--${alone[0]} goes with --suite <name>: add it`);
    return evaluate(target, options);
  }
  if (target !== undefined) throw new MgrpoError("config-invalid", `'${target}' and --watch: give one of the two`);
  if (team === undefined)
    throw new MgrpoError("config-invalid", "--watch needs --team <file>: whose checkpoints are they?");
  const { watch } = await import("./watch.ts");
  await watch(place, { team, every: every ?? EVERY_SECONDS, results: results ?? RESULTS });
}

async function evaluate(target: string, options: EvalOptions): Promise<void> {
  const { config, recipe } = await evaluationConfig(target, options);
  refuseMissingKey(config);
  await refuseMissingTools(config);
  const questions = await readQuestions(recipe, config);
  const bases = await readBases(config, "evaluate");
  const stop = watchForStop();
  const tell = async (told: FinishedJob) => {
    print(told.job);
    const lost = describeLosses(await resultOf(told));
    if (lost === undefined) return;
    console.error(`suite ${told.job.suite}: ${lost}`);
    process.exitCode = 1;
  };
  await evaluateTeam(config, bases, questions, stop, tell).finally(() => stop.dispose());
  if (!stop.signal.aborted) return;
  console.error("stopped before every suite was answered");
  process.exitCode = 130;
}

/**
 * The config of the run, of the team's file or of the recipe, with the checkpoints in question as its base models, or a model behind an
 * API. The budget was its training's.
 */
async function evaluationConfig(
  target: string,
  { recipe: wanted, arm, seed, judge, set }: EvalOptions,
  suite?: SuiteOptions & { readonly name: string },
): Promise<{ config: RunConfig; recipe: Recipe }> {
  const { stored, checkpoints, endpoint } = findTeam(target);
  if (stored && wanted !== undefined && wanted !== stored.recipe) {
    throw new MgrpoError("config-invalid", `'${target}' is of recipe '${stored.recipe}': leave out --recipe ${wanted}`);
  }
  const name = stored?.recipe ?? wanted ?? (endpoint ? ENDPOINT_RECIPE : "atlas");
  const recipe = await openRecipe(name);
  const advised = stored ? advisedBy(recipe, stored) : recipe;
  const choice = {
    ...{ run: "eval", recipe: name, seed: seed ?? stored?.seed ?? 1 },
    arm: arm ?? stored?.arm ?? (endpoint ? ENDPOINT_ARM : "mgrpo"),
  };
  const advice = recipe.config(choice.arm, chosenBy(set));
  const ofEndpoint = endpoint ? asAgents(endpoint, Object.keys(advice.agents)) : [];
  const own = [...(stored && checkpoints === undefined ? untrained(stored) : []), ...ofEndpoint, "budget={}"];
  const judged = judge === undefined ? [] : [`judge.model=${judge}`];
  const all = [...own, ...set, ...judged, "steps=1"];
  const { agents, evaluation } = resolveConfig(advised, { ...choice, set: all });
  const declared = [...evaluation.suites, ...z.array(EvaluationSuite).parse(advice.evaluation?.suites ?? [])];
  const suites = suite && [chooseSuite(suite.name, recipe.name, declared, suite)];
  const ours = Object.keys(agents).filter((agent) => !isEndpointPolicy(agents[agent]?.policy ?? ""));
  const settings = [
    ...all,
    ...(suites ? [`evaluation.suites=${JSON.stringify(suites)}`] : []),
    ...(checkpoints === undefined ? [] : ours.map((agent) => `agents.${agent}.model=${join(checkpoints, agent)}`)),
  ];
  const config = resolveConfig(advised, { ...choice, set: settings });
  if (config.evaluation.suites.length > 0) return { config, recipe };
  throw new MgrpoError(
    "config-invalid",
    `recipe '${name}' has no evaluation.suites: add one, or name one with --suite`,
  );
}

interface FoundTeam {
  /** Of a run or of a file. */
  readonly stored?: RunConfigInput;
  /** A folder per agent; absent where models are named otherwise. */
  readonly checkpoints?: string;
  readonly endpoint?: EndpointTeam;
}

function findTeam(target: string): FoundTeam {
  const folder = findRun(target);
  const stored = folder && readConfig(folder);
  if (!stored && isTeamFile(target)) return { stored: readTeamFile(target, "") };
  const endpoint = stored ? undefined : readEndpoint(target);
  if (endpoint) return { endpoint };
  const checkpoints = folder ? folder.checkpoints : resolve(target);
  if (existsSync(checkpoints)) return { checkpoints, ...(stored && { stored }) };
  const hint = stored
    ? "the run has not finished"
    : "give a run's name, a folder with one checkpoint per agent, a team's file, <team>.json, or openai:<base url>#<model>";
  throw new MgrpoError("not-found", `no checkpoints at ${checkpoints}: ${hint}`);
}

function print(job: JobRecord): void {
  const { suite, n, correct, runs, interval } = job;
  if (process.stdout.isTTY) {
    console.log(`  ${suite.padEnd(20)}${colors.green(accuracy(job))}  ${colors.dim(`${correct} of ${n}`)}`);
    return;
  }
  console.log(JSON.stringify({ kind: "evaluation", suite, n, correct, ...interval, runs }));
}
