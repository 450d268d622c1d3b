/**
 * @file One training step of one agent: finalized trajectories in, part by part; new weights in the Trainer. core holds the algorithm; this
 * file orders its passes (objective-passes.ts) and optimizer steps.
 *
 *   a part ── drop what has no gradient ──┬─ one minibatch, one epoch, advantages complete: its gradient at once
 *                                         └─ else: buffered until all parts are there, then scaled and split
 *   all parts ──┬─ no gradient ──────────────> trained: false, Adam is not called
 *               └─ mean over the questions ──> an optimizer step (one per minibatch and epoch)
 */
import type { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import type { TrainingStats } from "../../core/contracts/checkpoint.ts";
import type { Trajectory } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { batchStd } from "../../core/mgrpo/advantage.ts";
import { gradientScale, hasGradient, type LossTerm, splitMinibatches } from "../../core/mgrpo/batch.ts";
import { trajectoryLoss } from "../../core/mgrpo/loss.ts";
import { mismatch } from "../../core/mgrpo/mismatch.ts";
import { actionPositions_A } from "../../core/mgrpo/tokens.ts";
import type { Trainer } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import type { GradientTrainer } from "../busy.ts";
import { gradientPass, type Prepared, type TrainStepConfig, withEarlierPolicies } from "./objective-passes.ts";

/** One distinct trajectory of the batch. */
export interface TrainingEntry extends LossTerm {
  readonly trajectory: Trajectory;
  /** What `onTokens` is told about it by. */
  readonly name?: string;
  /** Index of its group: the gradient of a step is the mean over its groups. */
  readonly group: number;
  /** Standard deviation of its group's rewards. Used only under `advantageScale: batch`. */
  readonly groupStd: number;
}

/** What a pass measures about the policy. */
interface Measured {
  readonly loss: number;
  /** Whether the batch's first optimizer step came before the pass. */
  readonly moved: boolean;
  readonly klSum: number;
  readonly maxRatioDeviation: number;
  readonly clipped: number;
  readonly tokens: number;
}

/** A training step under way. */
interface StepState {
  readonly trainer: GradientTrainer;
  readonly config: TrainStepConfig;
  /** Groups seen so far, with the standard deviation of their rewards: the loss is the mean over them. */
  readonly questions: Map<number, number>;
  readonly counts: { trajectories: number; actionTokens: number; tokens: number };
  readonly passes: Measured[];
  /** One per optimizer step. */
  readonly gradientNorms: number[];
}

/**
 * Trains on a batch that arrives in parts, each with all trajectories of its questions. A trajectory whose gradient is zero by construction
 * (advantage 0 and no KL term) is not computed, but the counts in `stats` include it. `maxRatioDeviation` and `kl` measure what is computed
 * before the first optimizer step; they are only reported, and the caller warns. `reference` is required when the KL coefficient is not 0.
 */
export async function trainStep(
  trainer: GradientTrainer,
  parts: AsyncIterable<readonly TrainingEntry[]> | Iterable<readonly TrainingEntry[]>,
  config: TrainStepConfig,
  reference?: Pick<Trainer, "logProbs">,
): Promise<{ trained: boolean; stats: TrainingStats }> {
  const { algorithm } = config;
  const counts = { trajectories: 0, actionTokens: 0, tokens: 0 };
  const step: StepState = { trainer, config, questions: new Map(), counts, passes: [], gradientNorms: [] };
  const buffered: Prepared[] = [];
  for await (const part of parts) {
    const entries = part.map(prepare);
    countPart(step, part, entries);
    const learning = entries.filter(({ loss }) => hasGradient(loss, algorithm));
    const complete = await withEarlierPolicies(trainer, learning, config, reference);
    if (needsWholeBatch(algorithm)) buffered.push(...complete);
    else if (complete.length > 0) await accumulateGradient(step, complete);
  }
  if (step.passes.length > 0) await update(step, 1);
  const scaled = withBatchScale(step, buffered);
  for (let epoch = 0; epoch < algorithm.epochs; epoch++) await trainEpoch(step, scaled, epoch);
  return { trained: step.gradientNorms.length > 0, stats: statsOf(step) };
}

/** One optimizer step per minibatch. Each epoch deals anew. */
async function trainEpoch(step: StepState, entries: readonly Prepared[], epoch: number) {
  const { algorithm, draws } = step.config;
  const random = stream(...draws, ...(epoch === 0 ? [] : [epoch]));
  const minibatches = splitMinibatches(entries, algorithm.minibatches, random);
  for (const minibatch of minibatches) {
    await accumulateGradient(step, minibatch);
    await update(step, minibatches.length);
  }
}

/** Whether the first gradient can only be computed once all parts are there. */
function needsWholeBatch({ minibatches, epochs, advantageScale }: AlgorithmConfig): boolean {
  return minibatches > 1 || epochs > 1 || advantageScale === "batch";
}

/** Divides the advantages by the standard deviation of the whole batch, under `advantageScale: batch`. */
function withBatchScale({ questions, config }: StepState, entries: readonly Prepared[]): readonly Prepared[] {
  const { advantageScale, epsilon } = config.algorithm;
  if (advantageScale !== "batch") return entries;
  const scale = batchStd([...questions.values()]) + epsilon;
  return entries.map((entry) => ({ ...entry, loss: { ...entry.loss, advantage: entry.loss.advantage / scale } }));
}

function countPart({ questions, counts }: StepState, part: readonly TrainingEntry[], entries: readonly Prepared[]) {
  for (const { group, groupStd } of part) questions.set(group, groupStd);
  counts.trajectories += entries.length;
  counts.actionTokens += total(entries, ({ positions_A }) => positions_A.length);
  counts.tokens += total(entries, ({ tokens }) => tokens.length);
}

async function accumulateGradient({ trainer, config, passes, gradientNorms }: StepState, entries: readonly Prepared[]) {
  const moved = gradientNorms.length > 0;
  const pass = await gradientPass(trainer, entries, config, moved);
  refuseNonFinite(pass.loss, "loss");
  passes.push({ loss: pass.loss, moved, ...measure(entries, pass.current, config) });
}

/** Steps the optimizer on one of the batch's minibatches. */
async function update({ trainer, config, questions, gradientNorms }: StepState, minibatches: number) {
  const { gradientNorm } = await trainer.optimizerStep(config.optimizer, gradientScale(questions.size, minibatches));
  refuseNonFinite(gradientNorm, "gradient norm");
  gradientNorms.push(gradientNorm);
}

function statsOf({ config, questions, counts, passes, gradientNorms }: StepState): TrainingStats {
  if (gradientNorms.length === 0)
    return { loss: 0, gradientNorm: 0, clipFraction: 0, kl: 0, maxRatioDeviation: 0, ...counts };
  const before = passes.filter(({ moved }) => !moved);
  return {
    loss: total(passes, ({ loss }) => loss) / questions.size / config.algorithm.epochs,
    gradientNorm: total(gradientNorms, (norm) => norm) / gradientNorms.length,
    clipFraction: total(passes, ({ clipped }) => clipped) / total(passes, ({ tokens }) => tokens),
    kl: total(before, ({ klSum }) => klSum) / total(before, ({ tokens }) => tokens),
    maxRatioDeviation: Math.max(...before.map(({ maxRatioDeviation }) => maxRatioDeviation)),
    ...counts,
  };
}

function total<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0);
}

function prepare({ trajectory, name, group, advantage, tokenWeight }: TrainingEntry): Prepared {
  return {
    name,
    group,
    tokens: trajectory.tokens,
    positions_A: actionPositions_A(trajectory),
    loss: { advantage, tokenWeight, behavior_A: trajectory.logProbs, proximal_A: [], reference_A: [] },
  };
}

function measure(entries: readonly Prepared[], current: readonly number[][], config: TrainStepConfig) {
  let [klSum, maxRatioDeviation, clipped, tokens] = [0, 0, 0, 0];
  entries.forEach(({ name, loss }, i) => {
    const current_A = current[i] ?? [];
    const distance = mismatch(current_A, loss.behavior_A);
    klSum += distance.klSum;
    maxRatioDeviation = Math.max(maxRatioDeviation, distance.maxRatioDeviation);
    const terms = trajectoryLoss({ ...loss, current_A }, config.algorithm);
    clipped += terms.clipped;
    if (name !== undefined) config.onTokens?.(name, firstOf(loss, current_A), terms.clippedTokens);
    tokens += current_A.length;
  });
  return { klSum, maxRatioDeviation, clipped, tokens };
}

/** The log-probs before the step's first update where the objective needs them, else those of this pass. */
const firstOf = ({ proximal_A }: Prepared["loss"], current_A: readonly number[]): ArrayLike<number> =>
  proximal_A.length > 0 ? proximal_A : current_A;

/** Halts the run instead of putting NaN into the weights: the last published version stays intact. */
function refuseNonFinite(value: number, what: string): void {
  if (Number.isFinite(value)) return;
  const message = `training step: ${what} is ${value}: lower the learning rate or bound the ratio (ratio: token, ratioMask)`;
  throw new MgrpoError("run-halted", message);
}
