/**
 * @file Computes equal sequences of a batch once and adds up their weights. A confident policy often repeats itself.
 *
 *     linear          sum of w * logProb, which is linear in w
 *     clipped-token   min(r A, clip(r) A) is A min(r, 1 + high) for A > 0 and A max(r, 1 - low) for A < 0. While the advantages of
 *                     a token have one sign and r is the same, sum of w min(r A, clip(r) A) equals w' min(r A', clip(r) A')
 *                     with w' = sum of w and A' = sum of w A / w'.
 */
import type { Loss, TrainingSequence } from "../../core/ports.ts";
import type { GradientTrainer } from "../busy.ts";

/**
 * An equivalent trainer (up to rounding) that computes each distinct sequence once. Where the linear weights of a token cancel, the pass
 * does not return that token's log-prob.
 */
export function onDistinctSequences(trainer: GradientTrainer): GradientTrainer {
  return {
    async logProbs(sequences, temperature) {
      const { sets, setOf_N } = groupEqual(sequences, (tokens) => tokens.join());
      const distinct = sets.map(([first]) => first);
      return expand(await trainer.logProbs(distinct, temperature), setOf_N);
    },
    async forwardBackward(batch, loss, temperature) {
      const { sets, setOf_N } = groupEqual(batch, (sequence) => mergeKey(sequence, loss));
      const pass = await trainer.forwardBackward(sets.map(merged), loss, temperature);
      return { loss: pass.loss, logProbs: expand(pass.logProbs, setOf_N) };
    },
    optimizerStep: (...args) => trainer.optimizerStep(...args),
  };
}

/** Items with the same key. */
type EqualSet<T> = readonly [T, ...T[]];

/** Sets of items with the same key, in the order of their first item, and the index of each item's set. */
function groupEqual<T>(items: readonly T[], keyOf: (item: T) => string): { sets: EqualSet<T>[]; setOf_N: number[] } {
  const sets: [T, ...T[]][] = [];
  const indexOf = new Map<string, number>();
  const setOf_N = items.map((item) => {
    const key = keyOf(item);
    const index = indexOf.get(key);
    if (index === undefined) {
      indexOf.set(key, sets.length);
      return sets.push([item]) - 1;
    }
    sets[index]?.push(item);
    return index;
  });
  return { sets, setOf_N };
}

/** Each sequence's row, from its set's. */
const expand = (rows: readonly Float32Array[], setOf_N: readonly number[]): Float32Array[] =>
  setOf_N.map((set) => rows[set] ?? new Float32Array());

/**
 * Sequences with the same key have losses that can be added. For clipped-token that takes the same ratio, so behavior log-probs must be
 * bitwise equal.
 */
function mergeKey({ tokens, weights_T, advantages_T, behaviorLogProbs_T }: TrainingSequence, loss: Loss): string {
  if (loss.kind === "linear") return tokens.join();
  const signs_T = advantages_T?.map((advantage, t) => (weights_T[t] === 0 ? 0 : Math.sign(advantage)));
  return [tokens, signs_T, behaviorLogProbs_T].map((row) => row?.join()).join("|");
}

function merged(set: EqualSet<TrainingSequence>): TrainingSequence {
  const [first] = set;
  if (set.length === 1) return first;
  const sum_T = (term: (sequence: TrainingSequence, t: number) => number) =>
    first.tokens.map((_, t) => set.reduce((sum, sequence) => sum + term(sequence, t), 0));
  const weights_T = sum_T(({ weights_T }, t) => weights_T[t] ?? 0);
  const weightedAdvantages_T = sum_T(
    ({ weights_T, advantages_T }, t) => (weights_T[t] ?? 0) * (advantages_T?.[t] ?? 0),
  );
  return {
    ...first,
    weights_T: Float32Array.from(weights_T),
    ...(first.advantages_T && {
      advantages_T: Float32Array.from(weightedAdvantages_T, (sum, t) =>
        weights_T[t] === 0 ? 0 : sum / (weights_T[t] ?? 1),
      ),
    }),
  };
}
