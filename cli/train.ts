/** @file `mgrpo train`: resolves the config, stores it, trains on this machine, and sums up. */
import { inspect } from "node:util";
import { openConversationModel } from "../adapters/llm/converse.ts";
import { openLanguageModel } from "../adapters/llm/open.ts";
import type { Arm, RunConfig } from "../core/contracts/config.ts";
import { endpointOf, isEndpointPolicy } from "../core/contracts/language-model.ts";
import { MgrpoError } from "../core/errors.ts";
import type { ToolsModule } from "../core/recipe.ts";
import { trainedAgents } from "../core/training/plan.ts";
import { resolveConfig } from "../core/training/resolve.ts";
import { openEngine } from "../engine/index.ts";
import { engineOptions } from "../gpu-workers/policy.ts";
import { toolsOf } from "../gpu-workers/rollouts/agent.ts";
import { openRecipe, openTools, openToolsModule } from "../recipes/registry.ts";
import { openRewards } from "../recipes/rewards.ts";
import { makeMissingModels } from "./local/missing-models.ts";
import { refuseUnfit } from "./local/model-needs.ts";
import { type Bases, readBases } from "./local/prepare.ts";
import { runLocally } from "./local/run.ts";
import { createRunFolder, freeRunName, type RunFolder } from "./local/run-folder.ts";
import { readQuestions } from "./questions.ts";
import { printSummary } from "./terminal/summary.ts";

export interface TrainOptions {
  readonly steps?: number;
  readonly seed?: number;
  readonly run?: string;
  readonly arm?: Arm;
  readonly set: readonly string[];
}

export async function train(recipeName: string, options: TrainOptions): Promise<void> {
  const recipe = await openRecipe(recipeName);
  const { arm = "mgrpo", seed = 1 } = options;
  const run = options.run ?? freeRunName(recipe.name, arm, seed);
  const set = options.steps === undefined ? options.set : [...options.set, `steps=${options.steps}`];
  const config = resolveConfig(recipe, { run, seed, arm, set, recipe: recipeName });
  await refuseMissingParts(config, "here");
  await makeMissingModels(recipeName, recipe, config);
  const bases = await readBases(config, "train");
  refuseUnfit(config, bases);
  await checkEngines(config, bases);
  const questions = await readQuestions(recipe, config);
  const folder = createRunFolder(config);
  printConfig(config, folder);
  const report = await runLocally({
    config,
    folder,
    bases: () => bases,
    questions: () => questions,
    caseStudies: recipe.caseStudies,
  });
  if (report) printSummary(report, folder);
}

/**
 * A team that learns nothing, and an engine or a tool that is not there, are refused before anything starts. Tools that are opened with
 * settings and keys are opened where they are used: here, or by workers elsewhere.
 */
export async function refuseMissingParts(config: RunConfig, workers: "here" | "elsewhere"): Promise<void> {
  if (trainedAgents(config).length === 0) {
    throw new MgrpoError("config-invalid", "nobody in this team is trained: set agents.<name>.trained to true for one");
  }
  const module = await openToolsModule(config.recipe);
  if (workers === "elsewhere" && typeof module.tools === "function") {
    for (const { policy } of Object.values(config.agents)) refuseMissingEngine(policy, module);
    return;
  }
  if (workers === "here") {
    refuseMissingKey(config);
    await openRewards(config, process.env);
  }
  for (const { policy } of Object.values(config.agents)) refuseMissingEngine(policy, module);
  await refuseMissingTools(config, module);
}

/** A tool that is not there, or is without its key, is refused before anything starts that would call it from here. */
export async function refuseMissingTools(config: RunConfig, opened?: ToolsModule): Promise<void> {
  const module = opened ?? (await openToolsModule(config.recipe));
  const { tools, close } = await openTools(module, { config, environment: process.env });
  try {
    for (const [name, agent] of Object.entries(config.agents)) toolsOf(name, agent, tools);
  } finally {
    await close();
  }
}

/** A judge, or an agent behind an API, without its key is refused before anything starts that would ask it from here. */
export function refuseMissingKey({ judge, agents }: RunConfig): void {
  if (judge) openLanguageModel(judge.model);
  for (const agent of Object.values(agents))
    if (isEndpointPolicy(agent.policy)) openConversationModel(endpointOf(agent));
}

function refuseMissingEngine(policy: string, { policies }: ToolsModule): void {
  if (!isEndpointPolicy(policy)) openEngine(policy, policies);
}

/** An engine whose package, GPU or server is not there, or that has another model, is refused before anything starts. */
async function checkEngines({ recipe, agents }: RunConfig, bases: Bases): Promise<void> {
  const { policies } = await openToolsModule(recipe);
  for (const [name, agent] of Object.entries(agents)) {
    const engine = isEndpointPolicy(agent.policy) ? undefined : openEngine(agent.policy, policies);
    await engine?.computesOn?.(engineOptions(agent));
    await engine?.check?.(bases.get(name) ?? new Map(), engineOptions(agent));
  }
}

function printConfig(config: RunConfig, folder: RunFolder): void {
  if (!process.stdout.isTTY) {
    console.log(JSON.stringify({ kind: "config", path: folder.config, config }));
    return;
  }
  console.log(inspect(config, { colors: true, depth: null, compact: 4, breakLength: process.stdout.columns }));
  console.log(`\n  ${folder.config}\n`);
}
