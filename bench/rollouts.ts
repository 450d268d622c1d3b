/**
 * @file engine.rollouts.*: one step of a small model, as in atlas: 8 conversations about each of 16 questions, three turns of up to 12 tokens
 * with tool responses between them, and the gradient of all. With small matrices and short sequences of many lengths, overhead and padding
 * dominate, not arithmetic. Measured in CPU seconds, which other processes affect least. engine.rollouts.tail: the CPU time of rollouts in waves, each
 * as long as its longest rollout, relative to that of rollouts that start in the next free slot; one rollout in eight is eight times as long as
 * the others.
 */
import type { EngineOptions, Sampler, TrainingSequence } from "../core/ports.ts";
import { stream } from "../core/random.ts";
import { median } from "../core/statistics.ts";
import { type ModelConfig, writeModelConfig } from "../engine/checkpoint/config.ts";
import { initializeWeights } from "../engine/checkpoint/initialize.ts";
import { parameterLayout } from "../engine/checkpoint/parameters.ts";
import { MODEL_FILE } from "../engine/checkpoint/tensors.ts";
import { writeModel } from "../engine/checkpoint/weights.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { cpuSecondsOf, medianOf, print } from "./measurement.ts";

const MODEL: ModelConfig = {
  layers: 3,
  width: 128,
  heads: 4,
  kvHeads: 2,
  headWidth: 32,
  ffnWidth: 256,
  vocabulary: 1309,
  ropeTheta: 10000,
  ropeScaling: null,
  epsilon: 1e-6,
  tied: true,
  queryKeyNorm: true,
  projectionBias: false,
};
const OPTIONS: EngineOptions = { threads: 1, slots: 64, contextTokens: 320, microBatchTokens: 4096 };
const QUESTIONS = 16;
const ROLLOUTS = 8;
const TURNS = 3;
const MAX_NEW_TOKENS = 12;
const MAX_RESPONSE_TOKENS = 48;
const REPEATS = 7;
const TAIL = { slots: 16, rollouts: 128, tokens: 12, longTokens: 96 };
/** A model with random weights rarely samples a trajectory twice at temperature 1; at 0.8, it does so about as often as atlas's agents. */
const POLICIES = [
  { name: "rollouts", temperature: 1 },
  { name: "rollouts.peaked", temperature: 0.8 },
];

const files = new Map([
  ["config.json", new TextEncoder().encode(writeModelConfig(MODEL, OPTIONS.contextTokens))],
  [MODEL_FILE, writeModel(parameterLayout(MODEL), initializeWeights(MODEL, 1))],
]);
const { layers, width, vocabulary } = MODEL;
const config = { layers, width, vocabulary, questions: QUESTIONS, rollouts: ROLLOUTS, turns: TURNS };

const loss = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 } as const;

for (const { name, temperature } of POLICIES) {
  const sampler = await compiledEngine.openSampler(files, OPTIONS);
  let trajectories: TrainingSequence[] = [];
  const sampling = await cpuSeconds(async (round) => {
    const rollouts = Array.from({ length: QUESTIONS * ROLLOUTS }, (_, i) => {
      return converse(sampler, `${round}/${i % QUESTIONS}`, `${round}/${i}`, temperature);
    });
    trajectories = await Promise.all(rollouts);
  });
  await sampler.close();
  const distinct = new Set(trajectories.map(({ tokens }) => tokens.join())).size;
  const details = { ...config, temperature, trajectories: trajectories.length, distinct };
  print(`engine.${name}.sample`, sampling, "CPU s", details);
  const trainer = await compiledEngine.openTrainer(files, OPTIONS);
  const training = await cpuSeconds(() => trainer.forwardBackward(trajectories, loss, temperature));
  print(`engine.${name}.train`, training, "CPU s", details);
  await trainer.close();
}

await compareTails();

async function compareTails(): Promise<void> {
  const { slots, rollouts, tokens, longTokens } = TAIL;
  const sampler = await compiledEngine.openSampler(files, { ...OPTIONS, slots });
  const lengthOf = (i: number) => (i % 8 === 0 ? longTokens : tokens);
  const ratios: number[] = [];
  for (let round = 0; round <= REPEATS; round++) {
    const wave = (form: string, first: number, count: number) =>
      Promise.all(
        Array.from({ length: count }, (_, i) => turn(sampler, `${round}/${form}/${first + i}`, lengthOf(first + i))),
      );
    const waves = await cpuSecondsOf(async () => {
      for (let first = 0; first < rollouts; first += slots) await wave("waves", first, slots);
    });
    const queued = await cpuSecondsOf(() => wave("queued", 0, rollouts));
    // The first round warms up.
    if (round > 0) ratios.push(waves / queued);
  }
  await sampler.close();
  print("engine.rollouts.tail", median(ratios), "waves / queued", { layers, width, vocabulary, ...TAIL });
}

/** One sampled turn after a short prompt. */
async function turn(sampler: Sampler, name: string, maxTokens: number): Promise<void> {
  const { integer } = stream("bench", "tail", name);
  const sampling = { temperature: 1, topP: 1, topK: 0 };
  const tokens = randomTokens(integer, 16);
  await sampler.sample({ sequence: name, tokens, maxTokens, stop: [], sampling, stream: ["bench", name] });
  sampler.release(name);
}

/** Identical conversations get identical tool responses. */
async function converse(sampler: Sampler, question: string, name: string, temperature: number) {
  const { integer } = stream("bench", "question", question);
  const tokens = randomTokens(integer, 12 + integer(8));
  const logProbs = tokens.map(() => 0);
  const weights = tokens.map(() => 0);
  for (let turn = 0; turn < TURNS; turn++) {
    const sample = await sampler.sample({
      sequence: name,
      tokens: [...tokens],
      maxTokens: 1 + integer(MAX_NEW_TOKENS),
      stop: [],
      sampling: { temperature, topP: 1, topK: 0 },
      stream: ["bench", name, turn],
    });
    tokens.push(...sample.tokens);
    const { integer: draw } = stream("bench", "response", tokens.join());
    const response = turn === TURNS - 1 ? [] : randomTokens(draw, 1 + draw(MAX_RESPONSE_TOKENS));
    tokens.push(...response);
    logProbs.push(...sample.logProbs, ...response.map(() => 0));
    weights.push(...sample.tokens.map(() => 1), ...response.map(() => 0));
  }
  sampler.release(name);
  return {
    tokens,
    weights_T: Float32Array.from(weights),
    advantages_T: new Float32Array(tokens.length).fill(1),
    behaviorLogProbs_T: Float32Array.from(logProbs),
  };
}

function randomTokens(integer: (below: number) => number, count: number): number[] {
  return Array.from({ length: count }, () => integer(MODEL.vocabulary));
}

function cpuSeconds(work: (repeat: number) => Promise<unknown>): Promise<number> {
  return medianOf(REPEATS, (repeat) => cpuSecondsOf(() => work(repeat)));
}
