/**
 * @file Computes the objective of a training step with the losses that engines offer.
 *
 *   clipped-token   one pass: the default objective, with any aggregation
 *   linear          log-probs first, then core's d(loss)/d(logProb) as weights: every other objective
 *   linear-entropy  the same, plus the entropy bonus
 */
import type { StepOptimizer } from "../../core/contracts/agent-config.ts";
import type { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import { MgrpoError } from "../../core/errors.ts";
import { klToGo_A } from "../../core/mgrpo/kl.ts";
import { isClippedTokenLoss, type LossTrajectory, type TrajectoryLoss, trajectoryLoss } from "../../core/mgrpo/loss.ts";
import { gather, scatter } from "../../core/mgrpo/tokens.ts";
import type { Trainer, TrainingSequence } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";
import { sum } from "../../core/statistics.ts";
import type { GradientTrainer } from "../busy.ts";

export interface TrainStepConfig {
  readonly algorithm: AlgorithmConfig;
  readonly optimizer: StepOptimizer;
  /** Coefficient of the entropy bonus in this step. */
  readonly entropyCoefficient: number;
  /** Sampling temperature of the rollouts: log-probs are those of the sampling distribution. */
  readonly temperature: number;
  /** Prefix of the names of the random streams that assign trajectories to minibatches, one per epoch. */
  readonly minibatchStream: StreamName;
  /**
   * Called in each pass for each named trajectory, with its log-probs before the step's first update if the objective computes them, else those of
   * this pass; and with the indices of the action tokens that the pass clips.
   */
  readonly onTokens?: (name: string, logProbs_A: ArrayLike<number>, clippedTokens: readonly number[]) => void;
}

/** A training entry in the form that passes use. `loss` lacks the log-probs of the current policy, which `gradientPass` returns. */
export interface PreparedEntry {
  readonly name: string | undefined;
  readonly group: number;
  readonly tokens: readonly number[];
  readonly positions_A: readonly number[];
  readonly loss: Omit<LossTrajectory, "current_A">;
}

/** The result of accumulating the gradient of some entries. `current`: log-probs of each entry's action tokens, before the optimizer step. */
export interface Pass {
  readonly loss: number;
  readonly current: readonly number[][];
}

/**
 * For objectives other than `clipped-token`, adds the log-probs of the proximal policy (the weights before the first optimizer step) and, if
 * the KL coefficient is positive, of the reference. With `kl.in: reward`, also subtracts the KL penalty from the advantages.
 */
export async function withEarlierPolicies(
  trainer: GradientTrainer,
  entries: readonly PreparedEntry[],
  { algorithm, temperature }: TrainStepConfig,
  reference: Pick<Trainer, "logProbs"> | undefined,
): Promise<readonly PreparedEntry[]> {
  if (isClippedTokenLoss(algorithm) || entries.length === 0) return entries;
  const { coefficient } = algorithm.kl;
  if (coefficient > 0 && reference === undefined) {
    const message = `algorithm.kl.coefficient is ${coefficient} but trainStep was called without a reference policy: pass one, or set the coefficient to 0`;
    throw new MgrpoError("config-invalid", message);
  }
  const proximal = await actionLogProbs(trainer, entries, temperature);
  const references =
    coefficient > 0 && reference ? await actionLogProbs(reference, entries, temperature) : entries.map(() => []);
  return entries.map((entry, i) => {
    const loss = { ...entry.loss, proximal_A: proximal[i] ?? [], reference_A: references[i] ?? [] };
    return { ...entry, loss: algorithm.kl.in === "reward" ? withKlInReward(loss, coefficient) : loss };
  });
}

/** Subtracts from each token's advantage the KL penalties of this token and all later ones (the KL to go). */
function withKlInReward(loss: PreparedEntry["loss"], coefficient: number): PreparedEntry["loss"] {
  const toGo_A = klToGo_A(loss.proximal_A, loss.reference_A, coefficient);
  return { ...loss, offsets_A: toGo_A.map((penalty, a) => (loss.offsets_A?.[a] ?? 0) - penalty) };
}

/** Accumulates the gradient of some entries. `moved`: the weights have changed since `proximal_A` was computed. */
export function gradientPass(
  trainer: GradientTrainer,
  entries: readonly PreparedEntry[],
  config: TrainStepConfig,
  moved: boolean,
): Promise<Pass> {
  return isClippedTokenLoss(config.algorithm)
    ? clippedTokenPass(trainer, entries, config)
    : linearPass(trainer, entries, config, moved);
}

async function clippedTokenPass(
  trainer: GradientTrainer,
  entries: readonly PreparedEntry[],
  config: TrainStepConfig,
): Promise<Pass> {
  const { clipLow, clipHigh } = config.algorithm;
  const sequences = entries.map(({ tokens, positions_A, loss }): TrainingSequence => {
    const spread = (values_A: ArrayLike<number>) => scatter(values_A, positions_A, tokens.length);
    return {
      tokens,
      weights_T: spread(positions_A.map(() => loss.tokenWeight)),
      advantages_T: spread(positions_A.map((_, a) => loss.advantage + (loss.offsets_A?.[a] ?? 0))),
      behaviorLogProbs_T: spread(loss.behavior_A),
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

async function linearPass(
  trainer: GradientTrainer,
  entries: readonly PreparedEntry[],
  { algorithm, entropyCoefficient, temperature }: TrainStepConfig,
  moved: boolean,
): Promise<Pass> {
  const current = moved
    ? await actionLogProbs(trainer, entries, temperature)
    : entries.map(({ loss }) => Array.from(loss.proximal_A));
  const losses = entries.map((entry, i) => trajectoryLoss({ ...entry.loss, current_A: current[i] ?? [] }, algorithm));
  const hasEntropy = entropyCoefficient !== 0;
  const sequences = entries.map(({ tokens, positions_A, loss: { tokenWeight } }, i): TrainingSequence => {
    const spread = (values_A: readonly number[]) => scatter(values_A, positions_A, tokens.length);
    const weights_T = spread(losses[i]?.gradient_A ?? []);
    if (!hasEntropy) return { tokens, weights_T };
    return { tokens, weights_T, entropyWeights_T: spread(positions_A.map(() => entropyCoefficient * tokenWeight)) };
  });
  const pass = await trainer.forwardBackward(
    sequences,
    { kind: hasEntropy ? "linear-entropy" : "linear" },
    temperature,
  );
  const loss = sum(losses.map((one) => one.loss));
  return { loss: hasEntropy ? loss + pass.loss - linearSum(losses, current) : loss, current };
}

/** The linear term of a `linear-entropy` loss. */
function linearSum(losses: readonly TrajectoryLoss[], current: readonly (readonly number[])[]): number {
  return sum(losses.map(({ gradient_A }, i) => sum(gradient_A.map((weight, a) => weight * (current[i]?.[a] ?? 0)))));
}

async function actionLogProbs(
  policy: Pick<Trainer, "logProbs">,
  entries: readonly PreparedEntry[],
  temperature: number,
): Promise<number[][]> {
  const logProbs = await policy.logProbs(
    entries.map(({ tokens }) => tokens),
    temperature,
  );
  return entries.map(({ positions_A }, i) => gather(logProbs[i] ?? [], positions_A));
}
