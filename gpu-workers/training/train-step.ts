/**
 * @file One training step of one agent: finalized trajectories in, part by part, new weights in the Trainer. All of the algorithm is
 * core's; here it is turned into the two losses that engines offer.
 *
 *   a part ── drop what has no gradient ──┬─ one minibatch: its gradient, at once
 *                                                                  └─ several: put by until all parts are there, then cut
 *   all parts ──┬─ no gradient ──────────────> trained: false, Adam is not called
 *               └─ mean over the questions ──> an optimizer step (one per minibatch)
 *
 *        clipped-token   one pass: the default objective, any aggregation
 *        linear          log-probs first, then d(loss)/d(logProb) from core as weights: every other option
 */

import type { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import type { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import type { TrainingStats } from "../../core/contracts/checkpoint.ts";
import type { Trajectory } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { gradientScale, hasGradient, type LossTerm, splitMinibatches } from "../../core/mgrpo/batch.ts";
import { isClippedToken, type LossTrajectory, trajectoryLoss } from "../../core/mgrpo/loss.ts";
import { mismatch } from "../../core/mgrpo/mismatch.ts";
import { actionPositions_A, gather, scatter } from "../../core/mgrpo/tokens.ts";
import type { Trainer, TrainingSequence } from "../../core/ports.ts";
import type { Gradients } from "../busy.ts";

/** One distinct trajectory of the batch. */
export interface TrainingEntry extends LossTerm {
  readonly trajectory: Trajectory;
  /** Index of its group: the gradient of a step is the mean over its groups. */
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
 * Trains on a batch that comes in parts, each with all trajectories of its questions. Trajectories whose gradient is zero by construction
 * (advantage 0 and no KL term) are not computed; the counts in `stats` are of the whole batch all the same. `maxRatioDeviation` and `kl`
 * are of what is computed before the first optimizer step; they are reported, never acted on: the caller warns. `reference` is needed when
 * the KL coefficient is not 0.
 */
export async function trainStep(
  trainer: Gradients,
  parts: AsyncIterable<readonly TrainingEntry[]> | Iterable<readonly TrainingEntry[]>,
  config: TrainStepConfig,
  reference?: Pick<Trainer, "logProbs">,
): Promise<{ trained: boolean; stats: TrainingStats }> {
  const { algorithm, optimizer } = config;
  const questions = new Set<number>();
  const counts = { trajectories: 0, actionTokens: 0, tokens: 0 };
  const putBy: Prepared[] = [];
  const passes: Measured[] = [];
  const norms: number[] = [];

  const gradientOf = async (entries: readonly Prepared[]) => {
    const pass = isClippedToken(algorithm)
      ? await clippedTokenPass(trainer, entries, config)
      : await linearPass(trainer, entries, config, norms.length > 0);
    refuseNonFinite(pass.loss, "loss");
    passes.push({ loss: pass.loss, moved: norms.length > 0, ...measure(entries, pass.current, algorithm) });
  };
  const update = async (minibatches: number) => {
    const { gradientNorm } = await trainer.optimizerStep(optimizer, gradientScale(questions.size, minibatches));
    refuseNonFinite(gradientNorm, "gradient norm");
    norms.push(gradientNorm);
  };

  for await (const part of parts) {
    const entries = part.map(prepare);
    for (const { group } of part) questions.add(group);
    counts.trajectories += entries.length;
    counts.actionTokens += total(entries, ({ positions_A }) => positions_A.length);
    counts.tokens += total(entries, ({ tokens }) => tokens.length);
    const learning = await withEarlierPolicies(
      trainer,
      entries.filter(({ loss }) => hasGradient(loss, algorithm)),
      config,
      reference,
    );
    if (algorithm.minibatches > 1) putBy.push(...learning);
    else if (learning.length > 0) await gradientOf(learning);
  }
  if (passes.length > 0) await update(1);
  const minibatches = splitMinibatches(putBy, algorithm.minibatches);
  for (const minibatch of minibatches) {
    await gradientOf(minibatch);
    await update(minibatches.length);
  }

  if (norms.length === 0) {
    const still = { loss: 0, gradientNorm: 0, clipFraction: 0, kl: 0, maxRatioDeviation: 0 };
    return { trained: false, stats: { ...still, ...counts } };
  }
  const before = passes.filter(({ moved }) => !moved);
  return {
    trained: true,
    stats: {
      loss: total(passes, ({ loss }) => loss) / questions.size,
      gradientNorm: total(norms, (norm) => norm) / norms.length,
      clipFraction: total(passes, ({ clipped }) => clipped) / total(passes, ({ tokens }) => tokens),
      kl: total(before, ({ klSum }) => klSum) / total(before, ({ tokens }) => tokens),
      maxRatioDeviation: Math.max(...before.map(({ maxRatioDeviation }) => maxRatioDeviation)),
      ...counts,
    },
  };
}

function total<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0);
}

function prepare({ trajectory, advantage, tokenWeight }: TrainingEntry): Prepared {
  return {
    tokens: trajectory.tokens,
    positions_A: actionPositions_A(trajectory),
    loss: { advantage, tokenWeight, behaviour_A: trajectory.logProbs, proximal_A: [], reference_A: [] },
  };
}

/** Where the objective asks for them, adds the log-probs of the trainer before its first step and, under a KL term, of the reference. */
async function withEarlierPolicies(
  trainer: Gradients,
  entries: readonly Prepared[],
  { algorithm, temperature }: TrainStepConfig,
  reference: Pick<Trainer, "logProbs"> | undefined,
): Promise<readonly Prepared[]> {
  if (isClippedToken(algorithm) || entries.length === 0) return entries;
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
  trainer: Gradients,
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
  trainer: Gradients,
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

/** What a pass found out about the policy. */
interface Measured {
  readonly loss: number;
  /** An optimizer step of this batch came before. */
  readonly moved: boolean;
  readonly klSum: number;
  readonly maxRatioDeviation: number;
  readonly clipped: number;
  readonly tokens: number;
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

/** A step that would put NaN into the weights ends the training instead; the last published version stays good. */
function refuseNonFinite(value: number, what: string): void {
  if (Number.isFinite(value)) return;
  const message = `training step: ${what} is ${value}: lower the learning rate or bound the ratio (ratio: token, ratioMask)`;
  throw new MgrpoError("run-halted", message);
}
