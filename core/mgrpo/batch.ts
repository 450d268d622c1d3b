/**
 * @file The weights of a step's loss. Only this file decides them: a worker asks for the weight of each trajectory's tokens
 * (`lossTerms`, `agentScale`), splits minibatches, and scales the accumulated gradient (`gradientScale`).
 *
 *   step = mean over questions        question = sum over trajectories and tokens of weight * token loss
 *
 * A question's loss is a plain sum, so its gradient can be computed before the other questions are finalized, and does not depend on how an
 * engine cuts a batch into micro-batches.
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";
import type { AgentBatch } from "../contracts/records.ts";
import { MgrpoError } from "../errors.ts";
import type { Random } from "../random.ts";

/** What one trajectory contributes to the loss. */
export interface LossTerm {
  readonly advantage: number;
  /** Weight of each of its action tokens. */
  readonly tokenWeight: number;
  /** Added to the advantage of each of its turns. Absent: no turn has a reward of its own. */
  readonly turns?: readonly number[];
}

type Aggregation = Pick<AlgorithmConfig, "aggregation" | "constantTokens">;

/** The terms of a finalized group, in the order of its trajectories. `actionTokens_N`: tokens that the policy emitted in each. */
export function lossTerms(batch: AgentBatch, actionTokens_N: readonly number[], aggregation: Aggregation): LossTerm[] {
  const shares_N = trajectoryWeights(batch);
  const weights_N = tokenWeights(
    shares_N.map((weight, i) => ({ group: 0, weight, actionTokens: actionTokens_N[i] ?? 0 })),
    aggregation,
  );
  return weights_N.map((tokenWeight, i) => {
    const advantage = batch.advantages[i];
    const turns = batch.turns?.[i] ?? [];
    if (advantage !== undefined) return { advantage, tokenWeight, ...(turns.length > 0 && { turns }) };
    throw new MgrpoError("record-damaged", "finalized.advantages is shorter than finalized.trajectories");
  });
}

/**
 * Whether an agent learns from a finalized group: some advantage, or some turn's offset, is not 0. `std` does not say this: under
 * `baseline: leave-one-out`, the rewards of one rollout's trajectories may differ, but if no other rollout has any, all advantages are 0.
 */
export function hasSignal(batch: AgentBatch | undefined): boolean {
  if (batch === undefined) return false;
  return [...batch.advantages, ...(batch.turns ?? []).flat()].some((value) => value !== 0);
}

/** Whether a trajectory can have a gradient. */
export function hasGradient(
  { advantage, tokenWeight, turns = [] }: LossTerm,
  { kl, entropy }: Pick<AlgorithmConfig, "kl" | "entropy">,
): boolean {
  const hasAdvantage = advantage !== 0 || turns.some((offset) => offset !== 0);
  return tokenWeight > 0 && (kl.coefficient > 0 || entropy !== null || hasAdvantage);
}

/**
 * The factor of a gradient that was accumulated over one of `minibatches` minibatches of a step. A minibatch stands for the whole batch, and
 * a step is the mean over its questions.
 */
export function gradientScale(questions: number, minibatches: number): number {
  return 1 / ((1 / minibatches) * questions);
}

/**
 * The factor on the token weights of one of the agents that train the same policy. After `gradientScale` over all questions, the policy's
 * loss is the sum over its agents of share * (mean over the agent's own questions). Exactly 1 for an agent that trains it alone.
 */
export function agentScale(share: number, questions: { readonly own: number; readonly all: number }): number {
  return share * (questions.all / questions.own);
}

/** Each finalized trajectory's share of its group's loss. The shares sum to 1. */
export function trajectoryWeights({ trajectories, weights }: Pick<AgentBatch, "trajectories" | "weights">): number[] {
  return trajectories.map((_, i) => weights[weights.length === 1 ? 0 : i] ?? 0);
}

/** What the weight of a trajectory's tokens depends on. */
export interface WeightedTrajectory {
  /** Index of its group in the step. */
  readonly group: number;
  /** Its share of its group's loss. */
  readonly weight: number;
  readonly actionTokens: number;
}

/**
 * The weight of each action token of each trajectory. w: its share of its group's loss, T: its action tokens.
 *
 *   trajectory-mean  w / T: the mean over its tokens, then the weighted mean over trajectories
 *   token-mean       W * w / sum(w*T) over its question (W = sum w): all tokens of a question count the same (DAPO)
 *   constant         w / L: the sum over its tokens divided by a constant, independent of length (Dr. GRPO)
 *
 * Tokens that a ratio mask removes from the loss still count in T: masking a token never gives the others more weight.
 */
export function tokenWeights(
  trajectories: readonly WeightedTrajectory[],
  { aggregation, constantTokens }: Aggregation,
): number[] {
  const [shares, tokens] = [new Map<number, number>(), new Map<number, number>()];
  for (const { group, weight, actionTokens } of trajectories) {
    shares.set(group, (shares.get(group) ?? 0) + weight);
    tokens.set(group, (tokens.get(group) ?? 0) + weight * actionTokens);
  }
  return trajectories.map(({ group, weight, actionTokens }) => {
    if (weight === 0 || actionTokens === 0) return 0;
    if (aggregation === "trajectory-mean") return weight / actionTokens;
    if (aggregation === "constant") return weight / constantTokens;
    return ((shares.get(group) ?? 0) * weight) / (tokens.get(group) ?? 1);
  });
}

/**
 * At most `count` minibatches, none empty, each in the order of the entries. The entries are dealt in turn, question by question, so that each
 * question's trajectories are spread evenly. Those of one question are shuffled first: otherwise the first calls of all rollouts could end up in
 * one minibatch and the second calls in another. Throws `RangeError` if `count` is not a positive integer.
 */
export function splitMinibatches<T extends Pick<WeightedTrajectory, "group">>(
  entries: readonly T[],
  count: number,
  random: Random,
): T[][] {
  if (!Number.isInteger(count) || count < 1) throw new RangeError(`${count} minibatches: give a positive integer`);
  const parts = Math.min(count, entries.length);
  const minibatches = Array.from({ length: parts }, (): number[] => []);
  const shuffled = random.choose(entries.length, entries.length);
  const dealt = shuffled.toSorted((a, b) => (entries[a]?.group ?? 0) - (entries[b]?.group ?? 0));
  for (const [position, i] of dealt.entries()) minibatches[position % parts]?.push(i);
  return minibatches.map((indices) => indices.sort((a, b) => a - b).flatMap((i) => entries[i] ?? []));
}
