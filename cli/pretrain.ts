/**
 * @file `mgrpo pretrain <recipe>`: trains a recipe's base models from random weights, with the loop of `mgrpo sft`, each on its own endless
 * demonstrations.
 */
import { existsSync, readFileSync } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import * as z from "zod";
import { RunConfig } from "../core/contracts/config.ts";
import { parse, parseJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import type { CheckpointFiles, Trainer } from "../core/ports.ts";
import type { BaseModel, Demonstration, Recipe, ToolsModule } from "../core/recipe.ts";
import { chosenBy } from "../core/training/resolve-config.ts";
import { longestContext, parseModelConfig } from "../engine/checkpoint/config.ts";
import { WEIGHTS_FILES } from "../engine/checkpoint/folder.ts";
import { initializeWeights } from "../engine/checkpoint/initialize.ts";
import { removeLeftovers, temporaryName } from "../engine/checkpoint/leftovers.ts";
import { parameterLayout } from "../engine/checkpoint/parameters.ts";
import { MODEL_FILE } from "../engine/checkpoint/tensors.ts";
import { writeModel } from "../engine/checkpoint/weights.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { openTokenizer } from "../engine/tokenizer/tokenizer.ts";
import { agentLayoutOf } from "../gpu-workers/rollouts/agent-layout.ts";
import { openNamedRecipe, openTools, openToolsModule } from "../recipes/registry.ts";
import { batchesOf } from "../sft/batches.ts";
import { type Example, exampleOf, refuseTooLong } from "../sft/example.ts";
import { learn, OPTIMIZER } from "../sft/learn.ts";
import { NO_PROGRESS, recentLoss, type TrainingProgress } from "../sft/progress.ts";
import { responsesWithin } from "../sft/shown-response.ts";
import { openLiveLine } from "./terminal/live.ts";
import { MGRPO } from "./terminal/name.ts";
import { makeFolder, makeWritable } from "./writable-folder.ts";

export interface PretrainOptions {
  /** The base models to train, by the names or paths of their folders; all by default. */
  readonly only?: readonly string[];
  /** The parent of their folders, instead of the recipe's. */
  readonly to?: string;
  /** Tokens to train on, instead of the recipe's. */
  readonly tokens?: number;
}

/** What the model was trained with. `mgrpo sft` writes a file of this name too, without an arm. */
const RECORD = "training.json";
const TrainingRecord = z.looseObject({ arm: z.string().optional() });
const PROGRESS_EVERY_STEPS = 50;
/** Context of a model whose config does not limit it. */
const CONTEXT_TOKENS = 2048;
/** Number of steps over which the reported loss is averaged. */
const RECENT_STEPS = 50;

export async function pretrain(nameOrPath: string, { only, to, tokens }: PretrainOptions = {}): Promise<void> {
  const recipe = await openNamedRecipe(nameOrPath);
  const bases = chosenBases(recipe, only);
  const tools = await openToolsModule(nameOrPath);
  const placed = placedIn(to, bases);
  for (const { folder } of placed) checkTarget(folder);
  for (const base of placed) {
    const training = { ...base.training, ...(tokens && { tokens }) };
    await pretrainBase({ ...base, training }, recipe, tools, nameOrPath);
  }
}

/** The base models, their folders in `to` if it is given. Rejects two folders of the same name, which `to` cannot hold. */
export function placedIn(to: string | undefined, bases: readonly BaseModel[]): BaseModel[] {
  if (to === undefined) return [...bases];
  const folders = bases.map(({ folder }) => join(to, basename(folder)));
  const twice = folders.find((folder, i) => folders.indexOf(folder) < i);
  if (twice === undefined) return bases.map((base, i) => ({ ...base, folder: folders[i] ?? base.folder }));
  const message = `two base models would be written to ${twice}: choose one by its path with --only`;
  throw new MgrpoError("config-invalid", message);
}

/** Throws before anything is trained: for a folder that cannot be written, and for one with a model that this command did not make. */
function checkTarget(folder: string): void {
  const elsewhere = `to write it elsewhere, name the parent folder: ${MGRPO} pretrain <recipe> --to <folder>`;
  if (hasModel(folder) && !isOwn(folder)) {
    throw new MgrpoError("config-invalid", `${folder} has a model that pretrain did not make: ${elsewhere}`);
  }
  makeWritable(folder, elsewhere);
}

/** Whether the folder has weights: a single file, shards, or an adapter. */
export const hasModel = (folder: string): boolean => WEIGHTS_FILES.some((name) => existsSync(join(folder, name)));

function isOwn(folder: string): boolean {
  const path = join(folder, RECORD);
  try {
    return existsSync(path) && parseJson(TrainingRecord, readFileSync(path), path).arm !== undefined;
  } catch {
    // A record that does not parse is another program's.
    return false;
  }
}

/** Those that `only` names, each by its folder's name or path; all by default. Rejects a name that the recipe does not have. */
export function chosenBases({ name: recipe, baseModels = [] }: Recipe, only?: readonly string[]): BaseModel[] {
  const isNamed = ({ folder }: BaseModel, name: string) =>
    basename(folder) === name || resolve(folder) === resolve(name);
  const known = baseModels.map(({ folder }) => basename(folder));
  if (known.length === 0)
    throw new MgrpoError("recipe-invalid", `recipe '${recipe}' has no baseModels in its recipe.ts`);
  for (const name of only ?? []) {
    if (baseModels.some((base) => isNamed(base, name))) continue;
    const message = `recipe '${recipe}' has no base model '${name}' (available: ${known.join(", ")})`;
    throw new MgrpoError("recipe-invalid", message, { unknownNames: [{ unknown: name, known }] });
  }
  return baseModels.filter((base) => !only || only.some((name) => isNamed(base, name)));
}

/** Trains one base model and writes its folder. `location`: the recipe's name, or the path of the user's recipe folder. */
export async function pretrainBase(
  base: BaseModel,
  recipe: Recipe,
  tools: ToolsModule,
  location = recipe.name,
): Promise<void> {
  const described = base.files();
  const files = withRandomWeights(base, described);
  const encode = await encoderOf(recipe, location, base, files, tools);
  const trainer = await compiledEngine.openTrainer(files, {
    threads: 2,
    slots: 1,
    contextTokens: longestContext(files) ?? CONTEXT_TOKENS,
    microBatchTokens: base.training.batchTokens,
  });
  const learning = learnAll(trainer, base, examplesOf(base, encode));
  const { progress, saved } = await learning.finally(() => trainer.close());
  const { seed, agent, arm } = base;
  const steps = progress.losses.length;
  const loss = round(recentLoss(progress, RECENT_STEPS));
  const record = { ...base.training, seed, agent, arm, optimizer: OPTIMIZER, steps, loss };
  const weights = saved.get(MODEL_FILE);
  if (!weights) throw new Error(`the trainer saved no ${MODEL_FILE}`);
  const others = [...described, [RECORD, `${JSON.stringify(record, null, 2)}\n`] as const];
  await writeFolder(base.folder, [...others, [MODEL_FILE, weights]]);
}

/** A run treats a folder with weights as a complete model: old weights are removed first, and new ones are renamed into it last. */
async function writeFolder(folder: string, files: readonly (readonly [string, Uint8Array | string])[]): Promise<void> {
  // Two processes may make the same model at the same time.
  const [parent, prefix] = [dirname(folder), `${basename(folder)}.partial-`];
  makeFolder(folder);
  removeLeftovers(parent, prefix);
  const partial = join(parent, temporaryName(prefix));
  makeFolder(partial);
  try {
    for (const [name, content] of files) await writeFile(join(partial, name), content);
    await rm(join(folder, MODEL_FILE), { force: true });
    for (const [name] of files) await rename(join(partial, name), join(folder, name));
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

/** Trains until the base model's token budget is spent. Returns the progress and the files that the trainer saved. */
async function learnAll(trainer: Trainer, { folder, training }: BaseModel, examples: Iterable<Example>) {
  const { tokens, batchTokens } = training;
  const started = performance.now();
  let saved: ReadonlyMap<string, Uint8Array> = new Map();
  const never = Number.POSITIVE_INFINITY;
  const plan = { ...training, startsAtZero: true, evaluateEvery: never, patience: never };
  const display = openLiveLine(process.stderr);
  const sources = { batches: batchesOf(examples, batchTokens), heldOut: [] };
  const learning = learn(trainer, sources, plan, NO_PROGRESS, {
    onStep(now) {
      if (!now.ended && now.losses.length % PROGRESS_EVERY_STEPS > 0) return;
      const line = progressText(folder, now, tokens, performance.now() - started);
      if (now.ended || !process.stderr.isTTY) display.print(line);
      else display.show(() => line);
    },
    async onCheckpoint() {
      saved = await trainer.save();
    },
  });
  const progress = await learning.finally(() => display.close());
  if (progress.ended) return { progress, saved };
  const message = `the demonstrations of base model '${basename(folder)}' end after ${progress.tokens} of ${tokens} tokens: make demonstrations() endless`;
  throw new MgrpoError("recipe-invalid", message);
}

function* examplesOf(base: BaseModel, encode: (demonstration: Demonstration) => Example): Generator<Example> {
  for (const demonstration of base.demonstrations()) yield encode(demonstration);
}

async function encoderOf(
  recipe: Recipe,
  location: string,
  base: BaseModel,
  files: CheckpointFiles,
  module: ToolsModule,
) {
  const advised = recipe.config(base.arm, chosenBy([]));
  const input = { ...advised, run: "pretrain", recipe: location, arm: base.arm };
  const config = parse(RunConfig, input, `config of recipe '${recipe.name}'`, "config-invalid");
  const tokenizer = openTokenizer(files);
  const { tools, close } = await openTools(module, { config, environment: process.env });
  try {
    const rulesOf = (name: string) => {
      const agent = config.agents[name];
      if (!agent) throw new MgrpoError("recipe-invalid", `baseModels: arm '${base.arm}' has no agent '${name}'`);
      const { limits } = agent;
      return { layout: agentLayoutOf(name, agent, tokenizer, tools), limits, show: responsesWithin(limits, tokenizer) };
    };
    // Refuses a missing agent or tool before this model is trained.
    rulesOf(base.agent);
    const context = longestContext(files) ?? CONTEXT_TOKENS;
    const where = `recipe '${recipe.name}': a demonstration of base model '${basename(base.folder)}'`;
    return (demonstration: Demonstration) => {
      const { agent = base.agent } = demonstration;
      const { layout, limits, show } = rulesOf(agent);
      const example = exampleOf(demonstration, layout, tokenizer, show);
      refuseBeyondContext(example, base, context);
      refuseTooLong(example, agent, limits, where);
      return example;
    };
  } finally {
    await close();
  }
}

function refuseBeyondContext({ tokens }: Example, { folder }: BaseModel, context: number): void {
  if (tokens.length <= context) return;
  const message = `a demonstration of base model '${basename(folder)}' takes ${tokens.length} tokens, but the model's context holds ${context}: raise its max_position_embeddings (contextTokens of smallModel()), or shorten the demonstration`;
  throw new MgrpoError("recipe-invalid", message);
}

function withRandomWeights(base: BaseModel, files: ReadonlyMap<string, Uint8Array>): Map<string, Uint8Array> {
  const config = parseModelConfig(files.get("config.json") ?? "");
  return new Map([...files, [MODEL_FILE, writeModel(parameterLayout(config), initializeWeights(config, base.seed))]]);
}

function progressText(folder: string, progress: TrainingProgress, tokens: number, milliseconds: number): string {
  const { tokens: seen } = progress;
  const speed = Math.round((1000 * seen) / milliseconds);
  const loss = recentLoss(progress, RECENT_STEPS).toFixed(4);
  return `${relative(".", folder)}: ${(seen / 1e6).toFixed(2)} of ${(tokens / 1e6).toFixed(2)} M tokens, loss ${loss}, ${speed} tokens/s`;
}

const round = (value: number): number => Number(value.toFixed(4));
