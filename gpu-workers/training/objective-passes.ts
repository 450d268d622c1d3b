/**
 * @file The objective of a training step in the losses that engines offer.
 *
 *   clipped-token   one pass: the default objective, any aggregation
 *   linear          log-probs first, then core's d(loss)/d(logProb) as weights: every other option
 *   linear-entropy  the same, and the entropy bonus
 */
import type { StepOptimizer } from "../../core/contracts/agent-config.ts";
import type { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import { MgrpoError } from "../../core/errors.ts";
import { klToGo_A } from "../../core/mgrpo/kl.ts";
import { isClippedToken, type LossTrajectory, type TrajectoryLoss, trajectoryLoss } from "../../core/mgrpo/loss.ts";
import { gather, scatter } from "../../core/mgrpo/tokens.ts";
import type { Trainer, TrainingSequence } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";
import type { GradientTrainer } from "../busy.ts";

export interface TrainStepConfig {
  readonly algorithm: AlgorithmConfig;
  readonly optimizer: StepOptimizer;
  /** Coefficient of the entropy bonus in this step. */
  readonly entropyCoefficient: number;
  /** Sampling temperature of the rollouts: log-probs are those of the sampling distribution. */
  readonly temperature: number;
  /** Name of the random stream that assigns trajectories to minibatches. */
  readonly draws: StreamName;
  /** Observes the action tokens of a trajectory in each pass. Changes nothing. */
  readonly onTokens?: (name: string, logProbs_A: ArrayLike<number>, clipped: readonly number[]) => void;
}

/** An entry during the step. `loss` lacks the log-probs of the current policy, which a pass of the trainer returns. */
export interface Prepared {
  readonly name: string | undefined;
  readonly group: number;
  readonly tokens: readonly number[];
  readonly positions_A: readonly number[];
  readonly loss: Omit<LossTrajectory, "current_A">;
}

/** The gradient of some entries was accumulated. `current`: log-probs of each entry's action tokens, before the optimizer step. */
export interface Pass {
  readonly loss: number;
  readonly current: readonly number[][];
}

/** For objectives that need them, adds log-probs of the policy before the first optimizer step and, under a KL term, of the reference. */
export async function withEarlierPolicies(
  trainer: GradientTrainer,
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
  return entries.map((entry, i) => {
    const loss = { ...entry.loss, proximal_A: proximal[i] ?? [], reference_A: references[i] ?? [] };
    return { ...entry, loss: algorithm.kl.in === "reward" ? withKlInReward(loss, coefficient) : loss };
  });
}

/** Takes the KL penalty off the advantages of the tokens. */
function withKlInReward(loss: Prepared["loss"], coefficient: number): Prepared["loss"] {
  const toGo_A = klToGo_A(loss.proximal_A, loss.reference_A, coefficient);
  return { ...loss, offsets_A: toGo_A.map((penalty, a) => (loss.offsets_A?.[a] ?? 0) - penalty) };
}

/** Adds the gradient of some entries. `moved`: the weights have changed since `proximal_A` was computed. */
export function gradientPass(
  trainer: GradientTrainer,
  entries: readonly Prepared[],
  config: TrainStepConfig,
  moved: boolean,
): Promise<Pass> {
  return isClippedToken(config.algorithm)
    ? clippedTokenPass(trainer, entries, config)
    : linearPass(trainer, entries, config, moved);
}

async function clippedTokenPass(
  trainer: GradientTrainer,
  entries: readonly Prepared[],
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
  entries: readonly Prepared[],
  { algorithm, entropyCoefficient, temperature }: TrainStepConfig,
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
  const loss = total(losses, (one) => one.loss);
  if (entropyCoefficient === 0) {
    await trainer.forwardBackward(sequences, { kind: "linear" }, temperature);
    return { loss, current };
  }
  const withEntropy = entries.map(({ tokens, positions_A, loss: { tokenWeight } }, i) => ({
    ...(sequences[i] as TrainingSequence),
    entropyWeights_T: scatter(
      positions_A.map(() => entropyCoefficient * tokenWeight),
      positions_A,
      tokens.length,
    ),
  }));
  const pass = await trainer.forwardBackward(withEntropy, { kind: "linear-entropy" }, temperature);
  return { loss: loss + pass.loss - linearSum(losses, current), current };
}

/** The part of a `linear-entropy` loss that is not the entropy's. */
function linearSum(losses: readonly TrajectoryLoss[], current: readonly (readonly number[])[]): number {
  return total([...losses.keys()], (i) =>
    total([...(losses[i]?.gradient_A ?? []).entries()], ([a, weight]) => weight * (current[i]?.[a] ?? 0)),
  );
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

const total = <T>(items: readonly T[], of: (item: T) => number): number =>
  items.reduce((sum, item) => sum + of(item), 0);
