/**
 * @file `mgrpo/algorithm`: M-GRPO (arXiv 2511.13288) as pure functions on plain numbers and arrays; depends only on zod.
 *
 * Suffixes name axes: `_T` has one element per token of a trajectory, `_A` one per action token (sampled by the policy), `_K` one per
 * rollout of a group, `_N` one per reward of an agent in a group, `_G` one per group of a batch. A malformed rollout or invocation has
 * reward 0; any other has the sum of the reward's parts, each times its weight in `AlgorithmConfig`. `overlongPenalty` is added to either.
 * Log-probs are natural logarithms. Nothing here creates its own randomness: functions that draw take a `Random`, a function that returns one,
 * or the name of a stream (`mgrpo/random`). core/mgrpo/README.md maps equations to functions.
 *
 * `finalizeGroup`, `align` and `groupAdvantages` take a whole group, `tokenWeights` all trajectories of a batch, `trajectoryLoss` one
 * trajectory. `actionPositions_A` throws `MgrpoError` with code `record-damaged` if a trajectory's spans or log-probs do not fit its tokens.
 * The others do not check that the arrays they are given belong together.
 */
export type { AlgorithmConfig } from "../core/contracts/algorithm-config.ts";
export { batchStd, type GroupAdvantages, groupAdvantages } from "../core/mgrpo/advantage.ts";
export { type Alignment, align, shareAboveTarget } from "../core/mgrpo/alignment.ts";
export { splitMinibatches, tokenWeights, trajectoryWeights, type WeightedTrajectory } from "../core/mgrpo/batch.ts";
export { finalizeGroup } from "../core/mgrpo/finalize.ts";
export { type KlTerm, klTerm } from "../core/mgrpo/kl.ts";
export {
  isClippedTokenLoss,
  type LossOptions,
  type LossTrajectory,
  type TrajectoryLoss,
  trajectoryLoss,
} from "../core/mgrpo/loss.ts";
export { type Mismatch, mismatch } from "../core/mgrpo/mismatch.ts";
export { type PolicyTerm, policyTerm } from "../core/mgrpo/policy-loss.ts";
export { ratioBackward_A, ratios_A } from "../core/mgrpo/ratio.ts";
export { mainReward, overlongPenalty, subReward } from "../core/mgrpo/reward.ts";
export { actionPositions_A, gather, scatter } from "../core/mgrpo/tokens.ts";
