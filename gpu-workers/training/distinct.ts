/**
 * @file Rollouts that said the same are computed once: a policy that is sure of itself seldom says anything new. What they weigh is added up.
 *
 *     linear          sum of w * logProb, which is linear in w
 *     clipped-token   min(r A, clip(r) A) is A min(r, 1 + high) for A > 0 and A max(r, 1 - low) for A < 0. So as long as the
 *                     advantages of a token have one sign and r is the same, sum of w min(r A, clip(r) A) is what w' = sum of w
 *                     makes of A' = sum of w A / w'.
 */
import type { Loss, TrainingSequence } from "../../core/ports.ts";
import type { GradientTrainer } from "../busy.ts";

/**
 * The same trainer, but for rounding, asked for every distinct sequence once. Where linear weights of a token cancel, its log-prob is not among
 * those that a pass returns.
 */
export function onDistinctSequences(trainer: GradientTrainer): GradientTrainer {
  return {
    async logProbs(sequences, temperature) {
      const { groups, places } = alike(sequences, (tokens) => tokens.join());
      const distinct = groups.map(([first]) => first);
      return backTo(places, await trainer.logProbs(distinct, temperature));
    },
    async forwardBackward(batch, loss, temperature) {
      const { groups, places } = alike(batch, (sequence) => termsOf(sequence, loss));
      const pass = await trainer.forwardBackward(groups.map(merged), loss, temperature);
      return { loss: pass.loss, logProbs: backTo(places, pass.logProbs) };
    },
    optimizerStep: (...config) => trainer.optimizerStep(...config),
  };
}

type Group<T> = readonly [T, ...T[]];

/** Items by key, in the order of their first, and which group each of them is in. */
function alike<T>(items: readonly T[], keyOf: (item: T) => string): { groups: Group<T>[]; places: number[] } {
  const byKey = new Map<string, { place: number; group: [T, ...T[]] }>();
  const places = items.map((item) => {
    const key = keyOf(item);
    const known = byKey.get(key);
    if (known) known.group.push(item);
    else byKey.set(key, { place: byKey.size, group: [item] });
    return known?.place ?? byKey.size - 1;
  });
  return { groups: [...byKey.values()].map(({ group }) => group), places };
}

const backTo = (places: readonly number[], rows: readonly Float32Array[]): Float32Array[] =>
  places.map((place) => rows[place] ?? new Float32Array());

/** Sequences of which these are equal have terms that can be added. Log-probs under the behaviour policy make the ratio: not one bit apart. */
function termsOf({ tokens, weights_T, advantages_T, behaviourLogProbs_T }: TrainingSequence, loss: Loss): string {
  if (loss.kind === "linear") return tokens.join();
  const signs = advantages_T?.map((advantage, t) => (weights_T[t] === 0 ? 0 : Math.sign(advantage)));
  return [tokens, signs, behaviourLogProbs_T].map((row) => row?.join()).join("|");
}

function merged(group: Group<TrainingSequence>): TrainingSequence {
  const [first] = group;
  if (group.length === 1) return first;
  const sum_T = (term: (sequence: TrainingSequence, t: number) => number) =>
    first.tokens.map((_, t) => group.reduce((sum, sequence) => sum + term(sequence, t), 0));
  const weights_T = sum_T(({ weights_T }, t) => weights_T[t] ?? 0);
  const rewards_T = sum_T(({ weights_T, advantages_T }, t) => (weights_T[t] ?? 0) * (advantages_T?.[t] ?? 0));
  return {
    ...first,
    weights_T: Float32Array.from(weights_T),
    ...(first.advantages_T && {
      advantages_T: Float32Array.from(rewards_T, (reward, t) =>
        weights_T[t] === 0 ? 0 : reward / (weights_T[t] ?? 1),
      ),
    }),
  };
}
