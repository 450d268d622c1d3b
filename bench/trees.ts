/**
 * @file engine.train.trees: the gradient of one step of a model of SmolLM2-135M's shape with an adapter of rank 16, in prefix trees and apart, in
 * alternation. 8 rollouts of each question share a prompt of 300 tokens, of which all questions share 150; each has two turns of 24 new
 * tokens with a tool result of its own between them.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LoraConfig } from "../core/contracts/lora.ts";
import type { CheckpointFiles, EngineOptions, TrainingSequence } from "../core/ports.ts";
import { stream } from "../core/random.ts";
import type { ModelConfig } from "../engine/checkpoint/config.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { planMicroBatches, rowCount } from "../engine/compiled/training/batch-plan.ts";
import { writeRandomModel } from "./qwen3/model.ts";
import { withFreshAdapter } from "./qwen3/work.ts";

const SMOLLM2_135M: ModelConfig = {
  layers: 30,
  width: 576,
  heads: 9,
  kvHeads: 3,
  headWidth: 64,
  ffnWidth: 1536,
  vocabulary: 49152,
  ropeTheta: 100000,
  ropeScaling: null,
  epsilon: 1e-5,
  tied: true,
  queryKeyNorm: false,
  projectionBias: false,
};
const OPTIONS: EngineOptions = { threads: 2, slots: 8, contextTokens: 512, microBatchTokens: 4096 };
const LORA = LoraConfig.parse({});
const QUESTIONS = 8;
const ROLLOUTS = 8;
const SYSTEM = 150;
const PROMPT = 300;
const TURN = 24;
const RESPONSE = 40;
/** Alternations; the ratio is their median. */
const ROUNDS = 3;
const LOSS = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 } as const;

const folder = mkdtempSync(join(tmpdir(), "mgrpo-bench-trees-"));
try {
  const base = writeRandomModel(folder, SMOLLM2_135M, OPTIONS.contextTokens, "F32");
  await compare(withFreshAdapter(base, SMOLLM2_135M, LORA));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function compare(files: CheckpointFiles): Promise<void> {
  const batch = Array.from({ length: QUESTIONS }, (_, question) => rollouts(question)).flat();
  const [trees, apart] = await Promise.all(
    [true, false].map((prefixTrees) => compiledEngine.openTrainer(files, { ...OPTIONS, prefixTrees })),
  );
  if (!trees || !apart) throw new Error("no trainer");
  const seconds = async (trainer: typeof trees, of: readonly TrainingSequence[]) => {
    const start = performance.now();
    await trainer.forwardBackward(of, LOSS, 1);
    return (performance.now() - start) / 1000;
  };
  // Traces the graphs, and checks the trees.
  for (const trainer of [trees, apart]) await seconds(trainer, batch.slice(0, 2));
  const rounds: { trees: number; apart: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push({ trees: await seconds(trees, batch), apart: await seconds(apart, batch) });
  }
  await Promise.all([trees.close(), apart.close()]);
  const ratios = rounds.map((round) => round.apart / round.trees).sort((a, b) => a - b);
  const tokens = { trees: computedTokens(batch, true), apart: computedTokens(batch, false) };
  const config = {
    model: "SmolLM2-135M's shape",
    rank: LORA.rank,
    threads: OPTIONS.threads,
    dtype: "fp32",
    sequences: batch.length,
    tokens,
    seconds: rounds,
  };
  console.log(
    JSON.stringify({ name: "engine.train.trees", value: round2(ratios[ROUNDS >> 1]), unit: "apart / trees", config }),
  );
}

function computedTokens(batch: readonly TrainingSequence[], prefixTrees: boolean): number {
  const sequences = batch.map(({ tokens }) => tokens);
  const plan = planMicroBatches(sequences, () => 0, SMOLLM2_135M, { ...OPTIONS, prefixTrees });
  return plan.reduce((sum, micro) => sum + rowCount(micro) * micro.tokens, 0);
}

function rollouts(question: number): TrainingSequence[] {
  const prompt = [...randomTokens("system", SYSTEM), ...randomTokens(`question ${question}`, PROMPT - SYSTEM)];
  return Array.from({ length: ROLLOUTS }, (_, k) => {
    const name = `${question}/${k}`;
    const turns = randomTokens(name, 2 * TURN);
    const response = randomTokens(`response ${name}`, RESPONSE);
    const tokens = [...prompt, ...turns.slice(0, TURN), ...response, ...turns.slice(TURN)];
    const isAction = (t: number) => (t >= PROMPT && t < PROMPT + TURN) || t >= tokens.length - TURN;
    return {
      tokens,
      weights_T: Float32Array.from(tokens, (_x, t) => (isAction(t) ? 1 / ROLLOUTS : 0)),
      advantages_T: new Float32Array(tokens.length).fill(k % 2 ? 1 : -1),
      behaviorLogProbs_T: new Float32Array(tokens.length).fill(-Math.log(SMOLLM2_135M.vocabulary)),
    };
  });
}

function randomTokens(name: string, count: number): number[] {
  const { integer } = stream("bench", "trees", name);
  return Array.from({ length: count }, () => integer(SMOLLM2_135M.vocabulary));
}

function round2(value = Number.NaN): number {
  return Math.round(100 * value) / 100;
}
