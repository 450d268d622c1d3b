/**
 * @file The config of an evaluation. It comes from a run, a team file, a recipe with a folder of checkpoints, or a model behind an API.
 * Training's budget does not apply.
 */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import * as z from "zod";
import type { Arm, RunConfig, RunConfigInput } from "../core/contracts/config.ts";
import { EvaluationSuite } from "../core/contracts/evaluation-suite.ts";
import { isEndpointPolicy } from "../core/contracts/language-model.ts";
import { parse } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import { chosenBy, resolveConfig } from "../core/training/resolve-config.ts";
import { TINKER } from "../engine/tinker/policy.ts";
import { openNamedRecipe, openRecipe } from "../recipes/registry.ts";
import {
  ENDPOINT_ARM,
  ENDPOINT_RECIPE,
  type EndpointTeam,
  endpointSettings,
  parseEndpointTeam,
  withoutLocalSettings,
} from "./endpoint-team.ts";
import { withJudge } from "./judge/option.ts";
import { EVALUATION_RUN } from "./local/evaluate-team.ts";
import { pinModels } from "./local/hub-models.ts";
import { otherRelease } from "./local/other-release.ts";
import { type RunStatus, readConfig, readStatus, runNames } from "./local/run-folder.ts";
import { chooseSuite, type SuiteOptions } from "./suite/choose.ts";
import type { PlannedEvaluation } from "./suite/evaluate.ts";
import {
  agentsWithCheckpoint,
  exportHint,
  findTrainedRun,
  isTeamFile,
  readTeamFile,
  untrainedSettings,
  withStoredConfig,
} from "./team-file.ts";
import { didYouMean } from "./terminal/nearest.ts";
import { refuseTrainingOnlySettings } from "./unread-settings.ts";

export interface EvalOptions {
  readonly recipe?: string;
  readonly arm?: Arm;
  readonly seed?: number;
  readonly judge?: string;
  readonly set: readonly string[];
}

/**
 * `suite`: the one that `--suite` names; if absent, all suites of the run or recipe. If there are checkpoints, the model of each agent in
 * `agentsWithCheckpoint` is its own checkpoint, unless `set` names another model.
 */
export async function planEvaluation(
  target: string,
  options: EvalOptions,
  suite?: SuiteOptions & { readonly name: string },
): Promise<PlannedEvaluation> {
  const team = findTeam(target);
  const { stored, checkpoints, endpoint, status } = team;
  const name = recipeOf(target, team, options.recipe);
  refuseTrainingOnlySettings(options.set);
  const recipe = await (options.recipe === undefined ? openRecipe : openNamedRecipe)(name);
  const effectiveRecipe = endpoint ? withoutLocalSettings(recipe) : stored ? withStoredConfig(recipe, stored) : recipe;
  const choice = {
    run: EVALUATION_RUN,
    recipe: name,
    seed: options.seed ?? stored?.seed ?? 1,
    arm: armOf(target, team, options.arm),
  };
  const recommended = recipe.config(choice.arm, chosenBy(options.set));
  const settings = [
    ...(stored && checkpoints === undefined ? untrainedSettings(stored) : []),
    ...(endpoint ? endpointSettings(endpoint, Object.keys(recommended.agents)) : []),
    "budget={}",
    ...(status?.state === "finished" ? [`evaluation.firstTeam=${status.step}`] : []),
    ...withJudge(options.judge, options.set),
    "steps=1",
  ];
  const { agents, evaluation } = resolveConfig(effectiveRecipe, { ...choice, set: settings });
  if (suite) {
    const ofRecipe = parse(
      z.array(EvaluationSuite),
      recommended.evaluation?.suites ?? [],
      `evaluation.suites of recipe '${name}'`,
      "config-invalid",
    );
    const declared = [...evaluation.suites, ...ofRecipe];
    refuseIgnored(options.set, suite.name, evaluation.suites);
    const chosen = chooseSuite(suite.name, recipe.name, declared, suite);
    settings.push(`evaluation.suites=${JSON.stringify([chosen])}`);
  }
  if (checkpoints !== undefined) {
    const chosen = chosenBy(options.set);
    const fromCheckpoints = agentsWithCheckpoint(agents).filter(
      (agent) => chosen(`agents.${agent}.model`) === undefined,
    );
    settings.push(...fromCheckpoints.map((agent) => `agents.${agent}.model=${join(checkpoints, agent)}`));
  }
  const config = await pinModels(resolveConfig(effectiveRecipe, { ...choice, set: settings }));
  const [first] = config.evaluation.suites;
  if (!first) {
    throw new MgrpoError(
      "config-invalid",
      `recipe '${name}' has no evaluation.suites: add one, or name one with --suite`,
    );
  }
  return { config, suite: first, recipe, notes: status ? scoreDifferences(config, status) : [] };
}

/** Refuses settings of suites other than the chosen one, which would change nothing. */
function refuseIgnored(set: readonly string[], chosen: string, suites: readonly EvaluationSuite[]): void {
  const own = suites.findIndex(({ name }) => name === chosen);
  for (const setting of set) {
    const [, suite = own] = /^evaluation\.suites\.([^.=]+)[.=]/.exec(setting) ?? [];
    const isOfSuites = chosenBy([setting])("evaluation.suites") !== undefined;
    if (!isOfSuites || (own >= 0 && String(suite) === String(own))) continue;
    throw new MgrpoError(
      "config-invalid",
      `--set ${setting} does not change --suite ${chosen}, the only suite that is evaluated: leave out one of the two`,
    );
  }
}

interface FoundTeam {
  /** Config of a run or of a team file. */
  readonly stored?: RunConfigInput;
  /** A folder that holds a folder per agent. Absent: the config names the models. */
  readonly checkpoints?: string;
  readonly endpoint?: EndpointTeam;
  /** Absent unless the team is a run's. */
  readonly status?: RunStatus;
}

function findTeam(target: string): FoundTeam {
  const folder = findTrainedRun(target);
  if (folder) return { checkpoints: folder.checkpoints, stored: readConfig(folder), status: readStatus(folder) };
  if (isTeamFile(target)) return { stored: readTeamFile(target, "") };
  const endpoint = parseEndpointTeam(target);
  if (endpoint) return { endpoint };
  const checkpoints = resolve(target);
  if (existsSync(checkpoints)) return { checkpoints };
  const hint = `give a run's name, a folder with one checkpoint per agent, a team file (<team>.json), or openai:<base url>#<model>${didYouMean(target, runNames())}${exportHint(target)}`;
  throw new MgrpoError("not-found", `no checkpoints at ${checkpoints}: ${hint}`);
}

function recipeOf(target: string, { stored, endpoint }: FoundTeam, wanted: string | undefined): string {
  if (stored && wanted !== undefined && wanted !== stored.recipe)
    throw new MgrpoError(
      "config-invalid",
      `'${target}' belongs to recipe '${stored.recipe}': leave out --recipe ${wanted}`,
    );
  return stored?.recipe ?? wanted ?? (endpoint ? ENDPOINT_RECIPE : "atlas");
}

/** A run's arm decided its settings, so another one would describe a team that nobody trained. */
function armOf(target: string, { stored, status, endpoint }: FoundTeam, wanted: Arm | undefined): Arm {
  if (status && wanted !== undefined && wanted !== stored?.arm)
    throw new MgrpoError("config-invalid", `run '${target}' has arm ${stored?.arm}: leave out --arm ${wanted}`);
  return wanted ?? stored?.arm ?? (endpoint ? ENDPOINT_ARM : "mgrpo");
}

/**
 * Why scores can differ from those of the run's own evaluation of this team. With none of these reasons, and no `--set` that changes how
 * answers are sampled, the samples are the same on the same kind of CPU; a GPU or another CPU may round differently.
 */
function scoreDifferences({ seed, agents, evaluation }: RunConfig, status: RunStatus): string[] {
  const other = otherRelease(status);
  const fromRelease = other === undefined ? [] : [`scores can differ from the report of run '${status.run}': ${other}`];
  if (evaluation.suites.every(({ temperature }) => temperature === 0)) return fromRelease;
  const remote = Object.keys(agents).find((agent) => samplesElsewhere(agents[agent]?.policy ?? ""));
  const reasons = [
    ...(status.state === "finished"
      ? []
      : [`the run is ${status.state}, so it is not known after which step these checkpoints were saved`]),
    ...(seed === status.seed ? [] : [`--seed ${seed} is not the run's seed ${status.seed}`]),
    ...(remote === undefined ? [] : [`agent '${remote}' samples on a server, which draws its own random numbers`]),
  ];
  const sampled = reasons.map(
    (reason) => `sampled scores can differ from the report of run '${status.run}': ${reason}`,
  );
  return [...fromRelease, ...sampled];
}

const samplesElsewhere = (policy: string): boolean => isEndpointPolicy(policy) || policy.startsWith(TINKER);
