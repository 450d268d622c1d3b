/** @file One lane's passes over its part of a batch: plans the micro-batches, checks the first trees of each shape, and computes. */
import type { EngineOptions, Loss, Trainer, TrainingSequence } from "../../../core/ports.ts";
import { isWeighted } from "../../model/predictions.ts";
import type { Sequences } from "../../model/prefix-tree.ts";
import type { TrainedState } from "../../model/trained-state.ts";
import { lossKind } from "../graphs/loss-head.ts";
import { planMicroBatches } from "./batch-plan.ts";
import type { Passes } from "./passes.ts";
import { type CheckedPass, checkTrees } from "./tree-check.ts";

export function plannedPasses(
  passes: Passes,
  { config, gradient }: Pick<TrainedState, "config" | "gradient">,
  options: EngineOptions,
): Pick<Trainer, "logProbs" | "forwardBackward"> {
  const checkedShapes = new Set<string>();
  const planOf = (sequences: Sequences, predictionsOf: (member: number) => number, partOptions: EngineOptions) =>
    planMicroBatches(sequences, passes.limitsPredictions ? predictionsOf : () => 0, config, partOptions);
  return {
    async logProbs(sequences, temperature) {
      const pass: CheckedPass = {
        kind: "log-probs",
        gradientLength: 0,
        contributes: () => true,
        // A node's token is predicted at most once, so the limit on tokens bounds these predictions. Each sequence's last token has no node, so
        // its prediction is counted here.
        plan: (part, partOptions) => planOf(tokensOf(part), () => 1, partOptions),
        run: (part, plan) => passes.logProbs(tokensOf(part), temperature, plan),
      };
      const batch = sequences.map((tokens) => ({ tokens, weights_T: new Float32Array(tokens.length).fill(1) }));
      const plan = pass.plan(batch, options);
      await checkTrees(pass, batch, plan, checkedShapes, options);
      return passes.logProbs(sequences, temperature, plan);
    },
    async forwardBackward(batch, loss, temperature) {
      const pass: CheckedPass = {
        kind: lossKind(loss),
        gradientLength: gradient.length,
        contributes: (sequence, t) =>
          isWeighted(sequence, t, loss) && (loss.kind !== "clipped-token" || sequence.advantages_T?.[t] !== 0),
        plan: (part, partOptions) => planOf(tokensOf(part), (member) => weightedCount(part[member], loss), partOptions),
        run: async (part, plan, into) =>
          (await passes.forwardBackward(part, unclipped(loss), temperature, plan, into)).logProbs,
      };
      const plan = pass.plan(batch, options);
      await checkTrees(pass, batch, plan, checkedShapes, options);
      return passes.forwardBackward(batch, loss, temperature, plan, gradient);
    },
  };
}

/** Finite, since WebGPU need not support infinity. */
const NO_BOUND = 1e30;

/**
 * The same loss, computed by the same graph, with a clip range that no ratio leaves. A clipped token has no gradient to
 * compare, and at the edge of the range, rounding decides whether a token is clipped.
 */
const unclipped = (loss: Loss): Loss =>
  loss.kind === "clipped-token" ? { ...loss, clipLow: 1, clipHigh: NO_BOUND } : loss;

const tokensOf = (batch: readonly TrainingSequence[]): Sequences => batch.map(({ tokens }) => tokens);

const weightedCount = (sequence: TrainingSequence | undefined, loss: Loss): number =>
  sequence?.tokens.reduce((n, _, t) => n + (isWeighted(sequence, t, loss) ? 1 : 0), 0) ?? 0;
