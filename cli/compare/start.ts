/**
 * @file What the arms of a comparison start from: the recipe's base models and training questions, unless `--from` names checkpoints (of a
 * finished run, or in a folder) or `--questions` a file. With both, a comparison can be a second stage of training: it starts from the
 * checkpoints of a first stage, and trains on the questions that the first stage left unsolved. `{seed}` in either option stands for the
 * seed of each run, so that each seed can have a first stage of its own.
 */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { Arm } from "../../core/contracts/config.ts";
import { RunName } from "../../core/contracts/names.ts";
import { RECIPE_QUESTIONS } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Recipe } from "../../core/recipe.ts";
import { chosenBy, policiesOf, valueAt } from "../../core/training/resolve-config.ts";
import { existingRun, findRun } from "../local/run-folder.ts";

export interface Start {
  /**
   * `<source>`: where every arm without a source of its own starts. `<arm>=<source>`: where that arm starts. A source is a run, or a
   * folder with one checkpoint per agent. A valid run name always means a run: `warm` is a run, `./warm` and `models/warm` are folders.
   */
  readonly from: readonly string[];
  /** File of the training questions; the held-out questions stay those of the recipe. */
  readonly questions?: string;
}

const SEED = "{seed}";

/** The start of the runs with one seed. */
export function startWithSeed({ from, questions }: Start, seed: number): Start {
  const filled = (text: string) => text.replaceAll(SEED, String(seed));
  return { from: from.map(filled), ...(questions === undefined ? {} : { questions: filled(questions) }) };
}

/** The settings of an arm's run that choose its models and questions. Pure. */
export function startOf(recipe: Recipe, arm: Arm, { from, questions }: Start): string[] {
  const source = sourceOf(from, arm);
  return [
    ...(source === undefined
      ? []
      : policiesOf(recipe, arm).map((agent) => `agents.${agent}.model=${modelOf(source, agent)}`)),
    ...(questions === undefined
      ? []
      : [`questions=${JSON.stringify({ train: questions, heldOut: RECIPE_QUESTIONS })}`]),
  ];
}

/**
 * Refuses a second source for one arm, or for all; one for an arm outside the comparison; an arm left without a source; and a source that
 * lacks a checkpoint that an arm needs.
 */
export function checkStart(recipe: Recipe, arms: readonly Arm[], { from }: Start): void {
  for (const [i, one] of from.entries()) {
    const arm = armOf(one);
    const isSecond = from.slice(0, i).some((other) => armOf(other) === arm);
    if (isSecond)
      throw refusal(one, arm === undefined ? "another source is given for all arms" : `${arm} has a source already`);
    const { data } = Arm.safeParse(arm);
    if (arm === undefined || (data !== undefined && arms.includes(data))) continue;
    throw refusal(one, `--arms has no '${arm}'; it has ${arms.join(", ")}`);
  }
  const without = arms.find((arm) => sourceOf(from, arm) === undefined);
  if (without !== undefined && from.length > 0) {
    throw refusal(from.join(", "), `arm ${without} has nothing to start from: add --from ${without}=<run or folder>`);
  }
  for (const arm of arms) {
    const source = sourceOf(from, arm);
    if (source !== undefined) checkSource(source, arm, policiesOf(recipe, arm));
  }
}

function checkSource(source: string, arm: Arm, agents: readonly string[]): void {
  if (isRunName(source)) checkRun(source);
  else if (!existsSync(source)) throw refusal(source, `there is no folder ${resolve(source)}`);
  const missing = agents.find((agent) => !existsSync(modelOf(source, agent)));
  if (missing === undefined) return;
  const fault = isRunName(source) ? `the run has no agent '${missing}'` : `the folder has no checkpoint '${missing}'`;
  throw refusal(source, `${fault}, which arm ${arm} needs: add --from ${arm}=<another run or folder>`);
}

function checkRun(run: string): void {
  if (!findRun(run) && existsSync(run))
    throw refusal(run, `there is no such run; if you mean the folder, write ./${run}`);
  const { path, checkpoints } = existingRun(run);
  if (!existsSync(checkpoints)) throw refusal(run, `${path} has no checkpoints: the run has not finished`);
}

/** A start, and the other settings of the comparison, which may choose models and questions too. */
type Started = Start & { readonly set: readonly string[] };

/** One line for the summary. */
export function describeStart(arms: readonly Arm[], { from, set }: Pick<Started, "from" | "set">): string {
  const given = Object.entries(chosenBy(set)("agents") ?? {}).flatMap(([agent, settings]) => {
    const model = valueAt(settings, "model");
    return model === undefined ? [] : [`agents.${agent}.model=${model}`];
  });
  const others = given.length > 0 ? `, except for ${given.join(" and ")}` : "";
  const starts = arms.map((arm) => {
    const models = `${describeSource(sourceOf(from, arm))}${others}`;
    return `${arm}: ${models}${arm === "main-only" ? ", with frozen sub-agents" : ""}`;
  });
  return starts.join("; ");
}

/** The file of the training questions, for the summary. */
export const describeQuestions = ({ questions, set }: Pick<Started, "questions" | "set">): string =>
  questions ?? String(chosenBy(set)("questions.train") ?? "the recipe's");

function describeSource(source: string | undefined): string {
  if (source === undefined) return "the recipe's base models";
  return isRunName(source.replaceAll(SEED, "1")) ? `the checkpoints of run ${source}` : `the checkpoints in ${source}`;
}

const armOf = (from: string): string | undefined => (from.includes("=") ? from.slice(0, from.indexOf("=")) : undefined);

/** What an arm starts from: a run or a folder. Undefined: the recipe's base models. */
function sourceOf(from: readonly string[], arm: Arm): string | undefined {
  const own = from.find((one) => armOf(one) === arm);
  return own === undefined ? from.find((one) => armOf(one) === undefined) : own.slice(arm.length + 1);
}

const isRunName = (source: string): boolean => RunName.safeParse(source).success;

/** Relative to the working directory, unless the source is an absolute path, so that records hold in another clone. */
const modelOf = (source: string, agent: string): string =>
  isRunName(source) ? `runs/${source}/checkpoints/${agent}` : join(source, agent);

const refusal = (from: string, fault: string) => new MgrpoError("config-invalid", `--from ${from}: ${fault}`);
