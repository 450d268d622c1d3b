/** @file The progress of supervised training, stored beside its checkpoints and advanced by a step or an evaluation. Pure. */
import * as z from "zod";

const Evaluation = z.strictObject({
  step: z.int().nonnegative().describe("Steps before the evaluation."),
  tokens: z.int().nonnegative().describe("Tokens seen before the evaluation."),
  loss: z.number().describe("Held-out loss: mean -log p of the assistant's tokens."),
});

export const TrainingProgress = z.strictObject({
  tokens: z.int().nonnegative().describe("Tokens of demonstrations seen, context included."),
  losses: z.array(z.number()).describe("Each step's loss on its batch, before its update."),
  evaluations: z.array(Evaluation).describe("Held-out losses, the first before training. Empty: nothing is held out."),
  best: z.int().nonnegative().describe("Step of the best checkpoint; 0: there is none yet."),
  ended: z
    .enum(["tokens", "patience"])
    .nullable()
    .describe("Why it ended: the tokens are spent, or the held-out loss has stopped falling. Null: it has not ended."),
});
export type TrainingProgress = z.infer<typeof TrainingProgress>;

export const NO_PROGRESS: TrainingProgress = { tokens: 0, losses: [], evaluations: [], best: 0, ended: null };

export function afterTrainingStep(
  progress: TrainingProgress,
  loss: number,
  tokens: number,
  budget: number,
): TrainingProgress {
  const seen = progress.tokens + tokens;
  return {
    ...progress,
    tokens: seen,
    losses: [...progress.losses, loss],
    ended: seen >= budget ? "tokens" : null,
  };
}

/** @param loss undefined: nothing is held out, and the newest checkpoint is the best. */
export function afterEvaluation(
  progress: TrainingProgress,
  loss: number | undefined,
  patience: number,
): TrainingProgress {
  const { tokens, losses, best, ended } = progress;
  const step = losses.length;
  if (loss === undefined) return { ...progress, best: step };
  const evaluations = [...progress.evaluations, { step, tokens, loss }];
  const candidates = evaluations.filter((evaluation) => evaluation.step > 0);
  const lowest = Math.min(...candidates.map((evaluation) => evaluation.loss));
  const first = candidates.findIndex((evaluation) => evaluation.loss === lowest);
  const isOver = candidates.length - 1 - first >= patience;
  return {
    ...progress,
    evaluations,
    best: candidates[first]?.step ?? best,
    ended: ended ?? (isOver ? "patience" : null),
  };
}

/** The mean of the latest `count` losses. */
export function recentLoss({ losses }: TrainingProgress, count: number): number {
  const recent = losses.slice(-count);
  return recent.reduce((sum, loss) => sum + loss, 0) / recent.length;
}

export const heldOutLossAt = ({ evaluations }: TrainingProgress, step: number): number | undefined =>
  evaluations.find((evaluation) => evaluation.step === step)?.loss;

/** A warning for the user when training has ended; undefined: none. */
export function warningOf(progress: TrainingProgress): string | undefined {
  const [before, after] = [heldOutLossAt(progress, 0), heldOutLossAt(progress, progress.best)];
  if (before === undefined || after === undefined || after < before) return undefined;
  return `the held-out loss never fell below its first value, ${before.toFixed(4)}: the starting model is at least as good; give more demonstrations, or a lower --learning-rate`;
}
