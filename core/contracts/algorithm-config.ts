/**
 * @file The settings of the algorithm: every decision of the objective that the paper leaves open, explained in core/mgrpo/README.md. Equation
 * numbers are those of arXiv 2511.13288.
 */
import * as z from "zod";

/** The reward weights that an agent overrides have no defaults: one left out would get the paper's value, not the run's. */
export const MainReward = z.strictObject({
  format: z.number().describe("Reward of a well-formed rollout."),
  correct: z.number().describe("Weight of the answer's correctness."),
});

export const SubReward = z.strictObject({
  format: z.number().describe("Reward of a well-formed invocation."),
  correct: z.number().describe("Weight of the caller's correctness: in the paper, the main agent's in that rollout."),
  expert: z.number().describe("Weight of the expert's score of the subtask."),
});

/** A reward weight of the run, with the paper's value as its default. */
const weight = (own: z.ZodNumber, paper: number) => own.default(paper).describe(own.description ?? "");

const RunMainReward = z.strictObject({
  format: weight(MainReward.shape.format, 0.1),
  correct: weight(MainReward.shape.correct, 0.9),
});

const RunSubReward = z.strictObject({
  format: weight(SubReward.shape.format, 0.1),
  correct: weight(SubReward.shape.correct, 0.4),
  expert: weight(SubReward.shape.expert, 0.5),
});

/** Bound of d. Resampling draws d trajectories for each rollout. */
export const MAX_ALIGNED = 1000;

const AlignmentConfig = z.strictObject({
  mode: z
    .enum(["resample", "weighted", "none"])
    .default("resample")
    .describe("Trajectory alignment (section 4.1): resample as in the paper, weighted (its expectation), or none."),
  d: z
    .int()
    .positive()
    .max(MAX_ALIGNED)
    .default(2)
    .describe("d of eq 11: a sub-agent's target number of trajectories per rollout."),
});

const KlConfig = z.strictObject({
  coefficient: z.number().min(0).default(0).describe("Weight of the KL penalty. 0: off."),
  estimator: z
    .enum(["k1", "k2", "k3"])
    .default("k3")
    .describe("Estimator of the KL divergence from the reference policy."),
  in: z
    .enum(["loss", "reward"])
    .exactOptional()
    .describe(
      "loss: a term of the loss. reward: subtracted from the advantage of each token (REINFORCE++). Absent: loss.",
    ),
  refreshEvery: z
    .int()
    .positive()
    .exactOptional()
    .describe(
      "The reference is the agent's newest version whose number is a multiple of this. Absent: always version 0.",
    ),
});

const OverlongPenalty = z.strictObject({
  bufferTokens: z
    .int()
    .positive()
    .describe("The penalty grows from 0 to factor over this many tokens below limits.contextTokens."),
  factor: z.number().positive().default(1).describe("Penalty of a conversation as long as limits.contextTokens."),
});

const EntropyConfig = z.strictObject({
  start: z.number().min(0).describe("Coefficient at the start of the run."),
  end: z.number().min(0).describe("Coefficient at the end of the run. It changes linearly in between."),
});

const RatioMask = z.strictObject({
  low: z.number().min(0).describe("Smallest ratio of an unmasked token."),
  high: z.number().positive().describe("Largest ratio of an unmasked token."),
});

const PolicyLoss = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("clip").describe("clip: the clipped surrogate of PPO.") }),
  z.strictObject({
    kind: z
      .literal("dual-clip")
      .describe("dual-clip: clip, with a bound on the loss of tokens with a negative advantage and a large ratio."),
    c: z.number().gt(1).default(3).describe("Caps the loss of a token with advantage A < 0 at -c A, times its weight."),
  }),
  z.strictObject({
    kind: z
      .literal("cispo")
      .describe("cispo: the clipped ratio, as a constant weight, times the log-prob (MiniMax-M1)."),
  }),
]);

/**
 * The default clip range of each ratio. The mean over a sequence varies far less than the ratio of one token, so the range for tokens would never
 * clip it: GSPO (arXiv 2507.18071, section 5.1) has a range of its own.
 */
export const CLIP_RANGES = {
  token: { clipLow: 0.2, clipHigh: 0.28 },
  sequence: { clipLow: 0.2, clipHigh: 0.28 },
  "sequence-mean": { clipLow: 3e-4, clipHigh: 4e-4 },
};

export const AlgorithmSettings = z.strictObject({
  mainReward: RunMainReward.prefault({}).describe("Reward of the main agent, eq 4."),
  subReward: RunSubReward.prefault({}).describe("Reward of a sub-agent, eq 5."),
  alignment: AlignmentConfig.prefault({}).describe("How the trajectories of a sub-agent are aligned between rollouts."),
  ratio: z
    .enum(["token", "sequence", "sequence-mean"])
    .default("token")
    .describe("Granularity of the importance ratio: token, sequence (the paper's product) or sequence-mean (GSPO)."),
  policyLoss: PolicyLoss.default({ kind: "clip" }).describe("Form of the policy term: clip, dual-clip or cispo."),
  clipLow: z
    .number()
    .positive()
    .exactOptional()
    .describe("The ratio is clipped below 1 - clipLow. Default: 0.2, or 0.0003 for sequence-mean, as in GSPO."),
  clipHigh: z
    .number()
    .positive()
    .exactOptional()
    .describe("The ratio is clipped above 1 + clipHigh. Default: 0.28, or 0.0004 for sequence-mean, as in GSPO."),
  aggregation: z
    .enum(["trajectory-mean", "token-mean", "constant"])
    .default("trajectory-mean")
    .describe("How token losses are averaged: per trajectory, per question (DAPO), or by a constant (Dr. GRPO)."),
  constantTokens: z
    .int()
    .positive()
    .default(256)
    .describe("With aggregation constant: what the sum of a trajectory's token losses is divided by."),
  baseline: z
    .enum(["group", "leave-one-out"])
    .default("group")
    .describe("What is subtracted from a reward: the group's mean, or the mean over the other rollouts (RLOO)."),
  advantageScale: z
    .enum(["std", "batch", "none"])
    .default("std")
    .describe(
      "What advantages are divided by: the group's standard deviation (std), the batch's (REINFORCE++), or nothing (none).",
    ),
  turnWeight: z
    .number()
    .min(0)
    .default(0)
    .describe("Weight of turn-level advantages, from the turn rewards of the recipe (MT-GRPO). 0: off."),
  epsilon: z.number().positive().default(1e-6).describe("Added to the standard deviation before dividing by it."),
  shuffleAdvantages: z
    .boolean()
    .default(false)
    .describe("Control experiment: shuffles rewards within each group, so that advantages carry no information."),
  kl: KlConfig.prefault({}).describe("KL penalty against the reference policy."),
  entropy: EntropyConfig.nullable()
    .default(null)
    .describe(
      "Entropy bonus: subtracts coefficient times the policy's entropy at each sampled token from the loss. Null: off.",
    ),
  tisCap: z
    .number()
    .min(1)
    .nullable()
    .default(null)
    .describe(
      "Truncated importance sampling: cap on the weight exp(trainer's log-prob before the step - sampler's log-prob), which is 1 without a difference. Null: off.",
    ),
  ratioMask: RatioMask.nullable()
    .default(null)
    .describe("Masks tokens whose ratio to the behavior policy is outside this range. Null: off."),
  overlong: z
    .enum(["zero", "mask"])
    .default("zero")
    .describe(
      "A truncated conversation gets reward 0 (zero), or no weight in the loss (mask). Either way it counts toward the mean and the standard deviation of its group.",
    ),
  overlongPenalty: OverlongPenalty.nullable()
    .default(null)
    .describe("Lowers the reward of a conversation that comes close to limits.contextTokens (DAPO). Null: off."),
  minibatches: z
    .int()
    .positive()
    .default(1)
    .describe("Minibatches that a batch is split into, each with its own optimizer step."),
  epochs: z.int().positive().default(1).describe("Passes over a batch, each with its own minibatches (PPO)."),
});

/**
 * The settings of M-GRPO with all defaults: rewards (eq 4-5), alignment (eq 11), advantages (eq 9-10, 12-13) and loss (eq 14-19). The default clip
 * range is that of `ratio`. `algorithmOf` (algorithm-overrides.ts) gives those of one agent.
 */
export const AlgorithmConfig = AlgorithmSettings.transform((settings) => ({
  ...CLIP_RANGES[settings.ratio],
  ...settings,
}));
export type AlgorithmConfig = z.infer<typeof AlgorithmConfig>;

export const Staleness = z
  .int()
  .min(0)
  .max(16)
  .default(0)
  .describe(
    "How many versions the sampler is behind the trainer: that many further steps are sampled while agents train. Above 0, algorithm.tisCap or ratioMask is needed (docs/staleness.md).",
  );
