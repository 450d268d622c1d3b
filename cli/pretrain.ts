/**
 * @file `mgrpo pretrain <recipe>`: trains a recipe's base models from random weights, with the loop of `mgrpo sft`, on an endless stream of
 * the recipe's demonstrations.
 */
import { mkdir, rename, writeFile } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { RunConfig } from "../core/contracts/config.ts";
import { MgrpoError } from "../core/errors.ts";
import type { CheckpointFiles, Trainer } from "../core/ports.ts";
import type { BaseModel, Demonstration, Recipe, ToolsModule } from "../core/recipe.ts";
import { chosenBy } from "../core/training/resolve-config.ts";
import { longestContext, parseModelConfig } from "../engine/checkpoint/config.ts";
import { initializeWeights } from "../engine/checkpoint/initialize.ts";
import { parameterLayout } from "../engine/checkpoint/parameters.ts";
import { writeModel } from "../engine/checkpoint/weights.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { openTokenizer } from "../engine/tokenizer/tokenizer.ts";
import { openAgentLayout } from "../gpu-workers/rollouts/agent-layout.ts";
import { openRecipe, openTools, openToolsModule } from "../recipes/registry.ts";
import { batchesOf } from "../sft/batches.ts";
import { type Example, exampleOf } from "../sft/example.ts";
import { learn, OPTIMIZER } from "../sft/learn.ts";
import { NO_PROGRESS, recentLoss, type TrainingProgress } from "../sft/progress.ts";
import { openLiveLine } from "./terminal/live.ts";

export interface PretrainOptions {
  /** The folder names of the base models to train; all by default. */
  readonly only?: readonly string[];
  /** The parent of their folders, instead of the recipe's. */
  readonly to?: string;
  /** Tokens to train on, instead of the recipe's. */
  readonly tokens?: number;
}

const WEIGHTS = "model.safetensors";
const PROGRESS_EVERY = 50;
/** Number of recent batches over which the reported loss is averaged. */
const RECENT = 50;

export async function pretrain(nameOrPath: string, { only, to, tokens }: PretrainOptions = {}): Promise<void> {
  const recipe = await openRecipe(nameOrPath);
  const bases = (recipe.baseModels ?? []).filter(({ folder }) => !only || only.some((name) => folder.endsWith(name)));
  if (bases.length === 0) {
    throw new MgrpoError(
      "recipe-invalid",
      `recipe '${recipe.name}' has no such base model: see baseModels in its recipe.ts`,
    );
  }
  const tools = await openToolsModule(nameOrPath);
  for (const base of bases) {
    const folder = to === undefined ? base.folder : join(to, basename(base.folder));
    await pretrainBase({ ...base, folder, training: { ...base.training, ...(tokens && { tokens }) } }, recipe, tools);
  }
}

/** Trains one base model and writes its folder. */
export async function pretrainBase(base: BaseModel, recipe: Recipe, tools: ToolsModule): Promise<void> {
  const files = withRandomWeights(base);
  const encode = await encoderOf(recipe, base, files, tools);
  const trainer = await compiledEngine.openTrainer(files, {
    threads: 2,
    slots: 1,
    contextTokens: longestContext(files) ?? 2048,
    microBatchTokens: base.training.batchTokens,
  });
  const { progress, saved } = await learnAll(trainer, base, examplesOf(base, encode));
  await trainer.close();
  const { seed, agent, arm } = base;
  const steps = progress.losses.length;
  const loss = round(recentLoss(progress, RECENT));
  const record = { ...base.training, seed, agent, arm, optimizer: OPTIMIZER, steps, loss };
  const weights = saved.get(WEIGHTS);
  if (!weights) throw new Error(`the trainer saved no ${WEIGHTS}`);
  await mkdir(base.folder, { recursive: true });
  const others = [...files].filter(([name]) => name !== WEIGHTS);
  const training = `${JSON.stringify(record, null, 2)}\n`;
  for (const [name, content] of [...others, ["training.json", training] as const])
    await writeFile(join(base.folder, name), content);
  // Last and whole: a folder with weights counts as made (local/missing-models.ts).
  const path = join(base.folder, WEIGHTS);
  await writeFile(`${path}.tmp`, weights);
  await rename(`${path}.tmp`, path);
}

/** Trains until the base model's token budget is spent. Returns what the trainer saved then. */
async function learnAll(trainer: Trainer, { folder, training }: BaseModel, examples: Iterable<Example>) {
  const { tokens, batchTokens } = training;
  const started = performance.now();
  let saved: ReadonlyMap<string, Uint8Array> = new Map();
  const plan = { ...training, evaluateEvery: Number.POSITIVE_INFINITY, patience: Number.POSITIVE_INFINITY };
  const display = openLiveLine(process.stderr);
  const progress = await learn(trainer, { batches: batchesOf(examples, batchTokens), heldOut: [] }, plan, NO_PROGRESS, {
    onStep(now) {
      if (!now.ended && now.losses.length % PROGRESS_EVERY > 0) return;
      const line = progressText(folder, now, tokens, performance.now() - started);
      if (now.ended || !process.stderr.isTTY) display.print(line);
      else display.show(() => line);
    },
    async onCheckpoint() {
      saved = await trainer.save();
    },
  });
  display.close();
  return { progress, saved };
}

function* examplesOf(base: BaseModel, encode: (demonstration: Demonstration) => Example): Generator<Example> {
  for (const demonstration of base.demonstrations()) yield encode(demonstration);
}

async function encoderOf(recipe: Recipe, base: BaseModel, files: CheckpointFiles, module: ToolsModule) {
  const config = RunConfig.parse({
    ...recipe.config(base.arm, chosenBy([])),
    run: "pretrain",
    recipe: recipe.name,
    arm: base.arm,
  });
  const agent = config.agents[base.agent];
  if (!agent) throw new MgrpoError("recipe-invalid", `baseModels: arm '${base.arm}' has no agent '${base.agent}'`);
  const tokenizer = openTokenizer(files);
  const { tools, close } = await openTools(module, { config, environment: process.env });
  const layout = openAgentLayout(base.agent, agent, tokenizer, tools);
  await close();
  return (demonstration: Demonstration) => exampleOf(demonstration, layout, tokenizer);
}

function withRandomWeights(base: BaseModel): ReadonlyMap<string, Uint8Array> {
  const files = base.files();
  const config = parseModelConfig(files.get("config.json") ?? "");
  return new Map([...files, [WEIGHTS, writeModel(parameterLayout(config), initializeWeights(config, base.seed))]]);
}

function progressText(folder: string, progress: TrainingProgress, tokens: number, milliseconds: number): string {
  const { tokens: seen } = progress;
  const speed = Math.round((1000 * seen) / milliseconds);
  const loss = recentLoss(progress, RECENT).toFixed(4);
  return `${relative(".", folder)}: ${(seen / 1e6).toFixed(2)} of ${(tokens / 1e6).toFixed(2)} M tokens, loss ${loss}, ${speed} tokens/s`;
}

const round = (value: number): number => Number(value.toFixed(4));
