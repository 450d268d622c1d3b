/**
 * @file Checks prefix trees on first use: the log-probs of one sequence of a tree with branches are compared with those computed for it alone.
 * Later batches differ in tokens only. The check does not change the gradient.
 */
import { MgrpoError } from "../../../core/errors.ts";
import type { EngineOptions, TrainingSequence } from "../../../core/ports.ts";
import type { ModelConfig } from "../../checkpoint/config.ts";
import { isWeighted } from "../../model/predictions.ts";
import { prefixTree, type Sequences } from "../../model/prefix-tree.ts";
import { planBatch } from "./batch-plan.ts";
import type { Passes } from "./passes.ts";

/** Rounding leaves fp32 log-probs equal to 1e-4, bf16 ones to a few hundredths. A wrong mask or position changes them by tenths. */
const TOLERANCE = { fp32: 2e-3, bf16: 0.2 };

/** `openApart` opens passes that use no trees. */
export function checkedPasses(
  passes: Passes,
  openApart: () => Passes,
  config: ModelConfig,
  options: EngineOptions,
): Omit<Passes, "limitsPredictions"> {
  let isChecked = options.prefixTrees === false;
  const check = async (
    sequences: Sequences,
    temperature: number,
    found: readonly Float32Array[],
    isComputed: (member: number, t: number) => boolean,
    predictionsOf: (member: number) => number,
  ) => {
    if (isChecked) return;
    const { rows } = planBatch(sequences, predictionsOf, config, options);
    const [member] = rows.flatMap((members) => branched(members, sequences, isComputed) ?? []);
    if (member === undefined) return;
    const [alone] = await openApart().logProbs([sequences[member] ?? []], temperature);
    compare(found[member] ?? new Float32Array(), alone ?? new Float32Array(), (t) => isComputed(member, t), options);
    isChecked = true;
  };
  return {
    async logProbs(sequences, temperature) {
      const logProbs = await passes.logProbs(sequences, temperature);
      await check(sequences, temperature, logProbs, () => true, noPredictions);
      return logProbs;
    },
    async forwardBackward(batch, loss, temperature) {
      const pass = await passes.forwardBackward(batch, loss, temperature);
      const sequences = batch.map(({ tokens }) => tokens);
      const isComputed = isWeightedIn(batch);
      const weightedCount = (member: number) =>
        sequences[member]?.reduce((n, _, t) => n + (isComputed(member, t) ? 1 : 0), 0) ?? 0;
      const predictionsOf = passes.limitsPredictions ? weightedCount : noPredictions;
      await check(sequences, temperature, pass.logProbs, isComputed, predictionsOf);
      return pass;
    },
  };
}

const noPredictions = () => 0;

/**
 * The last member of a row that has a log-prob computed after another branch. Undefined: there is none, so the row proves nothing about masks
 * and positions. A single path has none: equal sequences, one that begins another, those that differ in their last token alone.
 */
function branched(
  members: readonly number[],
  sequences: Sequences,
  isComputed: (member: number, t: number) => boolean,
): number | undefined {
  const { nodes } = prefixTree(members.map((member) => sequences[member] ?? []));
  // Node t of a path is number t in its tree, unless another branch comes before it. It predicts token t + 1.
  return members.findLast((member, i) => nodes[i]?.some((node, t) => node > t && isComputed(member, t + 1)));
}

const isWeightedIn =
  (batch: readonly TrainingSequence[]) =>
  (member: number, t: number): boolean =>
    isWeighted(batch[member] as TrainingSequence, t);

function compare(
  found: Float32Array,
  alone: Float32Array,
  isComputed: (t: number) => boolean,
  { precision = "fp32" }: EngineOptions,
): void {
  const wrong = found.findIndex(
    (value, t) => t > 0 && isComputed(t) && !(Math.abs(value - (alone[t] ?? 0)) <= TOLERANCE[precision]),
  );
  if (wrong === -1) return;
  throw new MgrpoError(
    "engine-unsupported",
    `prefix trees: the log-prob of token ${wrong} is ${found[wrong]} in its tree but ${alone[wrong]} in the sequence alone: set engine.prefixTrees to false and report the model`,
  );
}
