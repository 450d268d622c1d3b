/**
 * @file `mgrpo pretrain <recipe>`: trains a recipe's base models by imitation. Demonstrations are rendered like conversations (the agent's
 * template, tokenizer and tools). M-GRPO's Trainer learns the assistant's tokens with the `linear` loss: mean -log p over a batch.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { RunConfig } from "../core/contracts/config.ts";
import { MgrpoError } from "../core/errors.ts";
import type { CheckpointFiles, Trainer, TrainingSequence } from "../core/ports.ts";
import type { BaseModel, Demonstration, Recipe, ToolsModule } from "../core/recipe.ts";
import { chosenBy } from "../core/training/resolve-config.ts";
import { parseModelConfig } from "../engine/checkpoint/config.ts";
import { initializeWeights } from "../engine/checkpoint/initialize.ts";
import { parameterLayout } from "../engine/checkpoint/parameters.ts";
import { writeModel } from "../engine/checkpoint/weights.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { openTokenizer } from "../engine/tokenizer/tokenizer.ts";
import { type AgentLayout, openAgentLayout } from "../gpu-workers/rollouts/agent-layout.ts";
import { openRecipe, openTools, openToolsModule } from "../recipes/registry.ts";

export interface PretrainOptions {
  /** The folder names of the base models to train; all by default. */
  readonly only?: readonly string[];
  /** The parent of their folders, instead of the recipe's. */
  readonly to?: string;
  /** Tokens to train on, instead of the recipe's. */
  readonly tokens?: number;
}

const PROGRESS_EVERY = 50;
/** Number of recent batches over which the reported loss is averaged. */
const RECENT = 50;
/** Shorter moving averages than in training, since batches are small and vary. */
const OPTIMIZER = { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0.01, maxGradientNorm: 1 };

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
    contextTokens: contextTokensOf(files),
    microBatchTokens: base.training.batchTokens,
  });
  const { steps, loss } = await learn(trainer, base, encode);
  const weights = (await trainer.save()).get("model.safetensors");
  await trainer.close();
  if (!weights) throw new Error("the trainer saved no model.safetensors");
  const { training, seed, agent, arm } = base;
  const record = { ...training, seed, agent, arm, optimizer: OPTIMIZER, steps, loss: round(loss) };
  await mkdir(base.folder, { recursive: true });
  for (const [name, bytes] of [...files, ["model.safetensors", weights] as const]) {
    await writeFile(join(base.folder, name), bytes);
  }
  await writeFile(join(base.folder, "training.json"), `${JSON.stringify(record, null, 2)}\n`);
}

/** Imitates demonstrations until the base model's token budget is spent. Returns the step count and the mean of the last losses. */
async function learn(trainer: Trainer, base: BaseModel, encode: Encode) {
  const { tokens, batchTokens, learningRate, warmUp } = base.training;
  const started = performance.now();
  const losses: number[] = [];
  let seen = 0;
  let steps = 0;
  for (const batch of batchesOf(base.demonstrations(), encode, batchTokens)) {
    losses.push(await imitate(trainer, batch, learningRate * schedule(seen / tokens, warmUp)));
    if (losses.length > RECENT) losses.shift();
    seen += batch.reduce((sum, { ids }) => sum + ids.length, 0);
    steps++;
    const done = seen >= tokens;
    if (done || steps % PROGRESS_EVERY === 0)
      progress(base.folder, seen, tokens, mean(losses), performance.now() - started, done);
    if (done) break;
  }
  return { steps, loss: mean(losses) };
}

type Encode = (demonstration: Demonstration) => Encoded;

interface Encoded {
  readonly ids: number[];
  /** Half-open spans of the assistant's tokens. */
  readonly assistant: (readonly [number, number])[];
}

/** One AdamW step on the mean -log p of the assistant's tokens. Returns that loss. */
async function imitate(trainer: Trainer, batch: readonly Encoded[], learningRate: number): Promise<number> {
  const total = batch.reduce(
    (sum, { assistant }) => sum + assistant.reduce((count, [start, end]) => count + end - start, 0),
    0,
  );
  const sequences = batch.map(({ ids, assistant }): TrainingSequence => {
    const weights_T = new Float32Array(ids.length);
    for (const [start, end] of assistant) weights_T.fill(-1 / total, start, end);
    return { tokens: ids, weights_T };
  });
  const { loss } = await trainer.forwardBackward(sequences, { kind: "linear" }, 1);
  await trainer.optimizerStep({ ...OPTIMIZER, learningRate });
  return loss;
}

async function encoderOf(
  recipe: Recipe,
  base: BaseModel,
  files: CheckpointFiles,
  module: ToolsModule,
): Promise<Encode> {
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
  const turnOf = (text: string) => [...tokenizer.encodeTemplate(text), tokenizer.endOfTurn];
  return (demonstration: Demonstration) => encoded(demonstration, layout, turnOf);
}

function encoded({ prompt, turns }: Demonstration, layout: AgentLayout, turnOf: (text: string) => number[]): Encoded {
  const ids = layout.prompt(prompt);
  const assistant: [number, number][] = [];
  const earlier: number[] = [];
  for (const { text, responses } of turns) {
    const start = ids.length;
    ids.push(...turnOf(text));
    assistant.push([start, ids.length]);
    if (responses.length > 0) ids.push(...layout.responses(responses, earlier));
    earlier.push(responses.length);
  }
  return { ids, assistant };
}

function* batchesOf(
  demonstrations: Iterable<Demonstration>,
  encode: Encode,
  batchTokens: number,
): Generator<Encoded[]> {
  let batch: Encoded[] = [];
  let tokens = 0;
  for (const demonstration of demonstrations) {
    const next = encode(demonstration);
    batch.push(next);
    tokens += next.ids.length;
    if (tokens < batchTokens) continue;
    yield batch;
    [batch, tokens] = [[], 0];
  }
}

/** Learning-rate factor at a fraction of the training: linear warm-up, then cosine decay to a tenth. */
export function schedule(done: number, warmUp: number): number {
  if (done < warmUp) return done / warmUp;
  return 0.1 + 0.45 * (1 + Math.cos((Math.PI * (done - warmUp)) / (1 - warmUp)));
}

function withRandomWeights(base: BaseModel): ReadonlyMap<string, Uint8Array> {
  const files = base.files();
  const config = parseModelConfig(files.get("config.json") ?? "");
  return new Map([
    ...files,
    ["model.safetensors", writeModel(parameterLayout(config), initializeWeights(config, base.seed))],
  ]);
}

function contextTokensOf(files: ReadonlyMap<string, Uint8Array>): number {
  const config = JSON.parse(new TextDecoder().decode(files.get("config.json"))) as { max_position_embeddings?: number };
  return config.max_position_embeddings ?? 2048;
}

function progress(
  folder: string,
  seen: number,
  tokens: number,
  loss: number,
  milliseconds: number,
  done: boolean,
): void {
  const speed = Math.round((1000 * seen) / milliseconds);
  const line = `${folder}: ${(seen / 1e6).toFixed(2)} of ${(tokens / 1e6).toFixed(2)} M tokens, loss ${loss.toFixed(4)}, ${speed} tokens/s`;
  process.stderr.write(process.stderr.isTTY && !done ? `\r${line}` : `${line}\n`);
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const round = (value: number): number => Number(value.toFixed(4));
