/**
 * @file One training step of one agent: a batch of sealed trajectories in, new weights in the Trainer. All of the algorithm is core's;
 * here it is turned into the two losses that engines offer.
 *
 *   weights of the tokens ── drop what has no gradient ──┬─ nothing left ───────────> trained: false, Adam is not called
 *   (whole batch, once)                                  └─ minibatches, each ×1 optimizer step
 *        clipped-token   one pass: the default objective, any aggregation
 *        linear          log-probs first, then d(loss)/d(logProb) from core as weights: every other option
 */

import type { TrainingStats } from "../../core/contracts/checkpoint.ts";
import type { AlgorithmConfig, OptimizerConfig } from "../../core/contracts/config.ts";
import type { Trajectory } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { splitMinibatches, tokenWeights } from "../../core/mgrpo/batch.ts";
import { isClippedToken, type LossTrajectory, trajectoryLoss } from "../../core/mgrpo/loss.ts";
import { mismatch } from "../../core/mgrpo/mismatch.ts";
import { actionPositions_A, gather, scatter } from "../../core/mgrpo/tokens.ts";
import type { Trainer, TrainingSequence } from "../../core/ports.ts";

/** One distinct trajectory of the batch. */
export interface TrainingEntry {
  readonly trajectory: Trajectory;
  readonly advantage: number;
  /** Share of the step's loss: its share of the group's, times 1/number of groups (`groupWeights`). */
  readonly weight: number;
  /** Index of its group: `token-mean` averages over the tokens of a question. */
  readonly group: number;
}

export interface TrainStepConfig {
  readonly algorithm: AlgorithmConfig;
  readonly optimizer: OptimizerConfig;
  /** Of the rollouts: log-probs are those of the sampling distribution. */
  readonly temperature: number;
}

/** An entry on its way through the step; `loss` lacks what only a pass of the trainer can tell. */
interface Prepared {
  readonly tokens: readonly number[];
  readonly positions_A: readonly number[];
  readonly loss: Omit<LossTrajectory, "current_A">;
}

/** What one minibatch did: log-probs of its action tokens before its optimizer step. */
interface Pass {
  readonly loss: number;
  readonly current: readonly number[][];
}

/**
 * Trains on the batch. Trajectories whose gradient is zero by construction (advantage 0 and no KL term) are not computed; the counts in
 * `stats` are of the whole batch all the same. `maxRatioDeviation` and `kl` are of the first minibatch, before any optimizer step; they
 * are reported, never acted on: the caller warns. `reference` is needed when the KL coefficient is not 0.
 */
export async function trainStep(
  trainer: Trainer,
  batch: readonly TrainingEntry[],
  config: TrainStepConfig,
  reference?: Pick<Trainer, "logProbs">,
): Promise<{ trained: boolean; stats: TrainingStats }> {
  const { algorithm, optimizer } = config;
  const entries = prepare(batch, algorithm);
  const counts = {
    trajectories: entries.length,
    actionTokens: entries.reduce((sum, { positions_A }) => sum + positions_A.length, 0),
    tokens: entries.reduce((sum, { tokens }) => sum + tokens.length, 0),
  };
  const withKl = algorithm.kl.coefficient > 0;
  const learning = entries.filter(({ loss }) => loss.tokenWeight > 0 && (withKl || loss.advantage !== 0));
  if (learning.length === 0) {
    const still = { loss: 0, gradientNorm: 0, clipFraction: 0, kl: 0, maxRatioDeviation: 0 };
    return { trained: false, stats: { ...still, ...counts } };
  }

  const onePass = isClippedToken(algorithm);
  const ready = onePass ? learning : await withEarlierPolicies(trainer, learning, config, reference);
  const minibatches = splitMinibatches(ready, algorithm.minibatches);
  let [loss, gradientNorm, clipped, tokens] = [0, 0, 0, 0];
  let before = { klSum: 0, maxRatioDeviation: 0, tokens: 0 };
  for (const [index, minibatch] of minibatches.entries()) {
    const scaled = minibatch.map((entry) => scaleLoss(entry, minibatches.length));
    const pass = onePass
      ? await clippedTokenPass(trainer, scaled, config)
      : await linearPass(trainer, scaled, config, index > 0);
    const here = measure(scaled, pass.current, algorithm);
    if (index === 0) before = here;
    refuseNonFinite(pass.loss, "loss");
    const step = await trainer.optimizerStep(optimizer);
    refuseNonFinite(step.gradientNorm, "gradient norm");
    loss += pass.loss / minibatches.length;
    gradientNorm += step.gradientNorm / minibatches.length;
    clipped += here.clipped;
    tokens += here.tokens;
  }
  const { klSum, maxRatioDeviation } = before;
  return {
    trained: true,
    stats: {
      loss,
      gradientNorm,
      clipFraction: clipped / tokens,
      kl: klSum / before.tokens,
      maxRatioDeviation,
      ...counts,
    },
  };
}

function prepare(batch: readonly TrainingEntry[], algorithm: AlgorithmConfig): Prepared[] {
  const positions = batch.map(({ trajectory }) => actionPositions_A(trajectory));
  const weights = tokenWeights(
    batch.map(({ group, weight }, i) => ({ group, weight, actionTokens: positions[i]?.length ?? 0 })),
    algorithm,
  );
  return batch.map(({ trajectory, advantage }, i) => ({
    tokens: trajectory.tokens,
    positions_A: positions[i] ?? [],
    loss: {
      advantage,
      tokenWeight: weights[i] ?? 0,
      behaviour_A: trajectory.logProbs,
      proximal_A: [],
      reference_A: [],
    },
  }));
}

/** Adds the log-probs of the trainer before its first step and, under a KL term, of the reference. */
async function withEarlierPolicies(
  trainer: Trainer,
  entries: readonly Prepared[],
  { algorithm, temperature }: TrainStepConfig,
  reference: Pick<Trainer, "logProbs"> | undefined,
): Promise<Prepared[]> {
  const { coefficient } = algorithm.kl;
  if (coefficient > 0 && reference === undefined) {
    const message = `algorithm.kl.coefficient is ${coefficient} but there is no reference policy: open one or set it to 0`;
    throw new MgrpoError("config-invalid", message);
  }
  const proximal = await actionLogProbs(trainer, entries, temperature);
  const references =
    coefficient > 0 && reference ? await actionLogProbs(reference, entries, temperature) : entries.map(() => []);
  return entries.map((entry, i) => ({
    ...entry,
    loss: { ...entry.loss, proximal_A: proximal[i] ?? [], reference_A: references[i] ?? [] },
  }));
}

async function clippedTokenPass(
  trainer: Trainer,
  entries: readonly Prepared[],
  config: TrainStepConfig,
): Promise<Pass> {
  const { clipLow, clipHigh } = config.algorithm;
  const sequences = entries.map(({ tokens, positions_A, loss }): TrainingSequence => {
    const spread = (values_A: ArrayLike<number>) => scatter(values_A, positions_A, tokens.length);
    return {
      tokens,
      weights_T: spread(positions_A.map(() => loss.tokenWeight)),
      advantages_T: spread(positions_A.map(() => loss.advantage)),
      behaviourLogProbs_T: spread(loss.behaviour_A),
    };
  });
  const result = await trainer.forwardBackward(
    sequences,
    { kind: "clipped-token", clipLow, clipHigh },
    config.temperature,
  );
  const current = entries.map(({ positions_A }, i) => gather(result.logProbs[i] ?? [], positions_A));
  return { loss: result.loss, current };
}

/** `moved`: the weights are no longer those that `proximal_A` was computed with. */
async function linearPass(
  trainer: Trainer,
  entries: readonly Prepared[],
  { algorithm, temperature }: TrainStepConfig,
  moved: boolean,
): Promise<Pass> {
  const current = moved
    ? await actionLogProbs(trainer, entries, temperature)
    : entries.map(({ loss }) => Array.from(loss.proximal_A));
  const losses = entries.map((entry, i) => trajectoryLoss({ ...entry.loss, current_A: current[i] ?? [] }, algorithm));
  const sequences = entries.map(({ tokens, positions_A }, i) => ({
    tokens,
    weights_T: scatter(losses[i]?.gradient_A ?? [], positions_A, tokens.length),
  }));
  await trainer.forwardBackward(sequences, { kind: "linear" }, temperature);
  return { loss: losses.reduce((sum, { loss }) => sum + loss, 0), current };
}

async function actionLogProbs(
  policy: Pick<Trainer, "logProbs">,
  entries: readonly Prepared[],
  temperature: number,
): Promise<number[][]> {
  const logProbs = await policy.logProbs(
    entries.map(({ tokens }) => tokens),
    temperature,
  );
  return entries.map(({ positions_A }, i) => gather(logProbs[i] ?? [], positions_A));
}

function measure(entries: readonly Prepared[], current: readonly number[][], algorithm: AlgorithmConfig) {
  let [klSum, maxRatioDeviation, clipped, tokens] = [0, 0, 0, 0];
  entries.forEach(({ loss }, i) => {
    const current_A = current[i] ?? [];
    const distance = mismatch(current_A, loss.behaviour_A);
    klSum += distance.klSum;
    maxRatioDeviation = Math.max(maxRatioDeviation, distance.maxRatioDeviation);
    clipped += trajectoryLoss({ ...loss, current_A }, algorithm).clipped;
    tokens += current_A.length;
  });
  return { klSum, maxRatioDeviation, clipped, tokens };
}

function scaleLoss(entry: Prepared, factor: number): Prepared {
  return { ...entry, loss: { ...entry.loss, tokenWeight: entry.loss.tokenWeight * factor } };
}

/** A step that would put NaN into the weights ends the training instead; the last published version stays good. */
function refuseNonFinite(value: number, what: string): void {
  if (Number.isFinite(value)) return;
  const message = `training step: ${what} is ${value}: lower the learning rate or bound the ratio (ratio: token, ratioMask)`;
  throw new MgrpoError("run-halted", message);
}
