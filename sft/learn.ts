/**
 * @file The loop of supervised training: one AdamW step per batch on the mean -log p of the assistant's tokens. At intervals it computes the
 * same mean on the held-out examples. A function of its arguments alone: resumed from a checkpoint, it computes the same bits.
 */
import type { OptimizerConfig } from "../core/contracts/agent-config.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Trainer } from "../core/ports.ts";
import { allTokens, type Example, trainedTokens } from "./example.ts";
import { afterEvaluation, afterTrainingStep, type TrainingProgress } from "./progress.ts";

type Optimizer = Omit<OptimizerConfig, "learningRate">;

/** `beta2` is lower than M-GRPO's default: squared gradients are averaged over fewer steps. */
export const OPTIMIZER: Optimizer = { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0.01, maxGradientNorm: 1 };

export interface TrainingPlan {
  /** Tokens to train on, context included. */
  readonly tokens: number;
  /** AdamW's peak rate: reached by a linear warm-up over the first `warmUp` share of the tokens, then decayed to a tenth along a cosine. */
  readonly learningRate: number;
  readonly warmUp: number;
  /** Whether the first step has rate 0, as in the training of the recipes' base models. By default its rate is above 0: no step is wasted. */
  readonly startsAtZero?: boolean;
  /**
   * Steps between evaluations, each followed by a checkpoint. Infinity: only one, after the last step. The evaluation
   * before training saves no checkpoint.
   */
  readonly evaluateEvery: number;
  /** Training ends early after this many evaluations in a row without a lower held-out loss. */
  readonly patience: number;
}

export interface TrainingExamples {
  /** All training batches, in order, including those already trained on. They hold at least the plan's tokens, and may be endless. */
  readonly batches: Iterable<readonly Example[]>;
  readonly heldOut: readonly Example[];
}

export interface Observer {
  /** Called after every step. */
  onStep?(progress: TrainingProgress): void;
  /** Called and awaited every `evaluateEvery` steps and after the last step: the trainer's state matches this progress. */
  onCheckpoint(progress: TrainingProgress): Promise<void>;
}

/** Trains until the token budget is spent or the held-out loss stops falling. `from`: the progress that the trainer's state matches. */
export async function learn(
  trainer: Trainer,
  { batches, heldOut }: TrainingExamples,
  plan: TrainingPlan,
  from: TrainingProgress,
  observer: Observer,
): Promise<TrainingProgress> {
  let progress = from;
  if (progress.losses.length === 0 && heldOut.length > 0) {
    progress = afterEvaluation(progress, await heldOutLoss(trainer, heldOut), plan.patience);
  }
  if (progress.ended) return progress;
  for (const batch of skip(batches, progress.losses.length)) {
    const share = plan.startsAtZero ? 0 : allTokens(batch) / plan.tokens;
    const learningRate = plan.learningRate * schedule(progress.tokens / plan.tokens, plan.warmUp, share);
    const loss = await imitate(trainer, batch, learningRate);
    progress = afterTrainingStep(progress, loss, allTokens(batch), plan.tokens);
    if (progress.ended || progress.losses.length % plan.evaluateEvery === 0) {
      progress = afterEvaluation(progress, await heldOutLoss(trainer, heldOut), plan.patience);
      await observer.onCheckpoint(progress);
    }
    observer.onStep?.(progress);
    if (progress.ended) break;
  }
  return progress;
}

/** One AdamW step on the mean -log p of the batch's assistant tokens. Returns that mean, as it was before the step. */
export async function imitate(trainer: Trainer, batch: readonly Example[], learningRate: number): Promise<number> {
  const total = trainedTokens(batch);
  const sequences = batch.map(({ tokens, turns }) => {
    const weights_T = new Float32Array(tokens.length);
    for (const [start, end] of turns) weights_T.fill(-1 / total, start, end);
    return { tokens, weights_T };
  });
  const { loss } = await trainer.forwardBackward(sequences, { kind: "linear" }, 1);
  await trainer.optimizerStep({ ...OPTIMIZER, learningRate });
  return loss;
}

/**
 * The mean -log p of the examples' assistant tokens. Undefined if there are no examples.
 * @throws MgrpoError `run-halted` if it is not finite: no checkpoint could be the best.
 */
export async function heldOutLoss(trainer: Trainer, examples: readonly Example[]): Promise<number | undefined> {
  if (examples.length === 0) return undefined;
  const logProbs = await trainer.logProbs(
    examples.map(({ tokens }) => tokens),
    1,
  );
  let sum = 0;
  for (const [i, { turns }] of examples.entries()) {
    for (const [start, end] of turns) for (const logProb of logProbs[i]?.subarray(start, end) ?? []) sum -= logProb;
  }
  const loss = sum / trainedTokens(examples);
  if (Number.isFinite(loss)) return loss;
  throw new MgrpoError(
    "run-halted",
    `the held-out loss is ${loss}: lower the learning rate, or check the weights of the model`,
  );
}

/**
 * Learning-rate factor of a step that begins after the fraction `done` of the training: linear warm-up, then cosine decay to a tenth.
 * `share`: the fraction that the step itself adds; 0 starts the warm-up at rate 0.
 */
export function schedule(done: number, warmUp: number, share: number): number {
  if (done < warmUp) return (done + share) / (warmUp + share);
  return 0.1 + 0.45 * (1 + Math.cos((Math.PI * (done - warmUp)) / (1 - warmUp)));
}

function* skip<T>(items: Iterable<T>, count: number): Generator<T> {
  let i = 0;
  for (const item of items) if (i++ >= count) yield item;
}
