/** @file Checks of inputs and gradients that the engines share. */
import * as z from "zod";
import type { OptimizerConfig, StepOptimizer } from "../../core/contracts/agent-config.ts";
import { parse } from "../../core/contracts/parse.ts";
import { Sampling } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Loss, SampleRequest, TrainingSequence } from "../../core/ports.ts";

/** Tokens must be in the vocabulary and fit in the context. */
function checkTokens(tokens: readonly number[], vocabulary: number, contextTokens: number): void {
  const noId = tokens.findIndex((token) => !Number.isInteger(token) || token < 0);
  if (noId !== -1) {
    throw new MgrpoError(
      "config-invalid",
      `tokens.${noId} is ${tokens[noId]}, which is no token id: ids are integers from 0 to ${vocabulary - 1}`,
    );
  }
  const unknown = tokens.find((token) => token >= vocabulary);
  if (unknown !== undefined) {
    throw new MgrpoError(
      "tokenizer-damaged",
      `token ${unknown} is outside the model's vocabulary of ${vocabulary}: tokenizer.json belongs to another model`,
    );
  }
  if (tokens.length > contextTokens) {
    throw new MgrpoError(
      "config-invalid",
      `a sequence of ${tokens.length} tokens exceeds the context of ${contextTokens}: raise limits.contextTokens`,
    );
  }
}

/** Sequences to train on or to score: as `checkTokens`, and none is empty. */
export function checkSequences(
  sequences: readonly (readonly number[])[],
  vocabulary: number,
  contextTokens: number,
): void {
  for (const tokens of sequences) {
    if (tokens.length === 0) throw new MgrpoError("config-invalid", "a sequence has no tokens: leave it out");
    checkTokens(tokens, vocabulary, contextTokens);
  }
}

const Temperature = z.number().positive();

/** The temperature of log-probs: at 0 they would be NaN. */
export function checkTemperature(temperature: number): void {
  parse(Temperature, temperature, "temperature", "config-invalid");
}

/** Infinity means no bound. A negative range, such as a `clipLow` of -0.2 for 0.2, would clip a ratio of 1. */
const ClipRange = z.custom<number>(
  (value) => typeof value === "number" && value >= 0,
  "must be a number of at least 0",
);
const LossSettings = z.discriminatedUnion(
  "kind",
  [
    z.object({ kind: z.literal("linear") }),
    z.object({ kind: z.literal("linear-entropy") }),
    z.object({ kind: z.literal("clipped-token"), clipLow: ClipRange, clipHigh: ClipRange }),
  ],
  "must be linear, linear-entropy or clipped-token",
);

export function checkTrainingSequence(sequence: TrainingSequence, loss: Loss): void {
  parse(LossSettings, loss, "loss", "config-invalid");
  const { tokens, weights_T, advantages_T, behaviorLogProbs_T, entropyWeights_T } = sequence;
  const needed: Readonly<Record<string, Float32Array | undefined>> = {
    linear: { weights_T },
    "linear-entropy": { weights_T, entropyWeights_T },
    "clipped-token": { weights_T, advantages_T, behaviorLogProbs_T },
  }[loss.kind];
  for (const [name, vector] of Object.entries(needed)) {
    if (vector?.length === tokens.length) continue;
    const found = vector ? `it has ${vector.length} values` : "it is missing";
    throw new MgrpoError(
      "config-invalid",
      `a '${loss.kind}' training sequence of ${tokens.length} tokens needs ${name} of that length: ${found}`,
    );
  }
  const unsigned: Readonly<Record<string, Float32Array | undefined>> = {
    linear: {},
    "linear-entropy": { entropyWeights_T },
    "clipped-token": { weights_T },
  }[loss.kind];
  for (const [name, vector] of Object.entries(unsigned)) {
    const negative = vector?.findIndex((weight, t) => t > 0 && weight < 0) ?? -1;
    if (negative === -1) continue;
    const fault = `${name}[${negative}] is ${vector?.[negative]}, but weights of this loss are at least 0`;
    throw new MgrpoError("config-invalid", `a '${loss.kind}' training sequence: ${fault}`);
  }
}

const SampleFields = z.object({
  maxTokens: z.int().nonnegative(),
  stop: z.array(z.array(z.int(), "must be a list of token ids: write [[token]] for one token")),
  sampling: Sampling,
  stream: z.array(z.union([z.string(), z.number()])),
});

export function checkSampleRequest(request: SampleRequest, vocabulary: number, contextTokens: number): void {
  checkTokens(request.tokens, vocabulary, contextTokens);
  const name = `sequence '${request.sequence}'`;
  if (request.tokens.length === 0) throw new MgrpoError("config-invalid", `${name}: an empty prompt predicts nothing`);
  parse(SampleFields, request, name, "config-invalid");
}

/** Other values make weights NaN, or are mistakes, such as a negative learning rate. `scale`: the factor of the gradient. */
const StepSettings = z.object({
  learningRate: z.number().nonnegative(),
  beta1: z.number().min(0).lt(1),
  beta2: z.number().min(0).lt(1),
  epsilon: z.number().positive(),
  weightDecay: z.number().nonnegative(),
  maxGradientNorm: z.number().positive().nullable(),
  scale: z.number(),
});

export function checkOptimizerStep(config: OptimizerConfig, scale: number): void {
  parse(StepSettings, { ...config, scale }, "optimizerStep", "config-invalid");
}

/** Settings of a step by a server's own optimizer. The server chooses the others. */
const ServerStepSettings = StepSettings.pick({ learningRate: true, scale: true });

export function checkServerStep({ learningRate }: Pick<StepOptimizer, "learningRate">, scale: number): void {
  parse(ServerStepSettings, { learningRate, scale }, "optimizerStep", "config-invalid");
}

export function checkGradient(gradient: Float32Array): void {
  if (gradient.every(Number.isFinite)) return;
  throw new MgrpoError(
    "run-halted",
    "the gradient is not finite: nothing was updated; lower the learning rate or check the batch's loss weights",
  );
}
