/**
 * @file What the arms of a comparison start from. Without options: the recipe's base models and training questions. `--from` and `--questions`
 * make it a comparison of second stages: arms start from the checkpoints of a finished run, on questions that it left unsolved.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Arm } from "../../core/contracts/config.ts";
import { OF_RECIPE } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Recipe } from "../../core/recipe.ts";
import { policiesOf } from "../../core/training/resolve-config.ts";
import { existingRun } from "../local/run-folder.ts";

export interface Start {
  /** `<run>`: every arm starts from its checkpoints. `<arm>=<run>`: that arm does. */
  readonly from: readonly string[];
  /** File of the training questions; the held-out questions stay those of the recipe. */
  readonly questions?: string;
}

/** The settings of an arm's run. Pure. */
export function startOf(recipe: Recipe, arm: Arm, { from, questions }: Start): string[] {
  const run = runOf(from, arm);
  return [
    ...(run === undefined
      ? []
      : policiesOf(recipe, arm).map((agent) => `agents.${agent}.model=${modelOf(run, agent)}`)),
    ...(questions === undefined ? [] : [`questions=${JSON.stringify({ train: questions, heldOut: OF_RECIPE })}`]),
  ];
}

/** Refuses a `--from` that names no arm of the comparison, or a run without the checkpoints that an arm needs. */
export function checkStart(recipe: Recipe, arms: readonly Arm[], { from }: Start): void {
  for (const [i, one] of from.entries()) {
    const arm = armOf(one);
    const isTwice = from.findIndex((other) => armOf(other) === arm) < i;
    if (isTwice)
      throw refusal(one, arm === undefined ? "another run is given for all arms" : `${arm} has a run already`);
    const { data } = Arm.safeParse(arm);
    if (arm === undefined || (data !== undefined && arms.includes(data))) continue;
    throw refusal(one, `--arms has no '${arm}'; it has ${arms.join(", ")}`);
  }
  const without = arms.find((arm) => runOf(from, arm) === undefined);
  if (without !== undefined && from.length > 0) {
    throw refusal(from.join(", "), `arm ${without} has no run to start from: add --from ${without}=<run>`);
  }
  for (const arm of arms) {
    const run = runOf(from, arm);
    if (run !== undefined) checkRun(run, arm, policiesOf(recipe, arm));
  }
}

function checkRun(run: string, arm: Arm, agents: readonly string[]): void {
  const { path, checkpoints } = existingRun(run);
  if (!existsSync(checkpoints)) throw refusal(run, `${path} has no checkpoints: the run has not finished`);
  const missing = agents.find((agent) => !existsSync(join(checkpoints, agent)));
  if (missing === undefined) return;
  throw refusal(run, `the run has no agent '${missing}', which arm ${arm} needs: add --from ${arm}=<another run>`);
}

/** One line for the summary. */
export function describeStart(arms: readonly Arm[], { from }: Start): string {
  const starts = arms.map((arm) => {
    const run = runOf(from, arm);
    const models = run === undefined ? "the recipe's base models" : `the checkpoints of run ${run}`;
    const frozen = run === undefined ? "untrained" : "as that run trained them";
    return `${arm}: ${models}${arm === "main-only" ? `, with sub-agents frozen ${frozen}` : ""}`;
  });
  return starts.join("; ");
}

const armOf = (from: string): string | undefined => (from.includes("=") ? from.slice(0, from.indexOf("=")) : undefined);

/** The run whose checkpoints an arm starts from. */
function runOf(from: readonly string[], arm: Arm): string | undefined {
  const own = from.find((one) => armOf(one) === arm);
  return own === undefined ? from.find((one) => armOf(one) === undefined) : own.slice(arm.length + 1);
}

/** Relative to where the process runs, so that a record of it holds in another clone. */
const modelOf = (run: string, agent: string): string => `runs/${run}/checkpoints/${agent}`;

const refusal = (from: string, fault: string) => new MgrpoError("config-invalid", `--from ${from}: ${fault}`);
