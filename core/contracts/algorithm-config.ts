/**
 * @file The settings of the algorithm: every decision of the objective that the paper leaves open, explained in core/mgrpo/README.md. Equation
 * numbers are those of arXiv 2511.13288.
 */
import * as z from "zod";

const MainReward = z.strictObject({
  format: z.number().describe("Reward of a well-formed rollout."),
  correct: z.number().describe("Weight of the answer's correctness."),
});

const SubReward = z.strictObject({
  format: z.number().describe("Reward of a well-formed invocation."),
  correct: z.number().describe("Weight of the main agent's correctness in the same rollout."),
  expert: z.number().describe("Weight of the expert's score of the subtask."),
});

const AlignmentConfig = z.strictObject({
  mode: z
    .enum(["resample", "weighted", "none"])
    .default("resample")
    .describe("Trajectory alignment (section 4.1): resample as in the paper, weighted (its expectation), or none."),
  d: z.int().positive().default(2).describe("d of eq 11: a sub-agent's target number of trajectories per rollout."),
});

const KlConfig = z.strictObject({
  coefficient: z.number().min(0).default(0).describe("Weight of the KL term in the loss. 0: off."),
  estimator: z
    .enum(["k1", "k2", "k3"])
    .default("k3")
    .describe("Estimator of the KL divergence from the reference policy."),
});

const RatioMask = z.strictObject({
  low: z.number().min(0).describe("Smallest ratio of an unmasked token."),
  high: z.number().positive().describe("Largest ratio of an unmasked token."),
});

/**
 * The clip range of each ratio where none is set. A mean over tokens moves far less than a ratio, so that in a token's range it is never
 * clipped: GSPO (arXiv 2507.18071, section 5.1) clips it in a range of its own.
 */
const CLIP_RANGES = {
  token: { clipLow: 0.2, clipHigh: 0.28 },
  sequence: { clipLow: 0.2, clipHigh: 0.28 },
  "sequence-mean": { clipLow: 3e-4, clipHigh: 4e-4 },
};

const AlgorithmSettings = z.strictObject({
  mainReward: MainReward.default({ format: 0.1, correct: 0.9 }).describe("Reward of the main agent, eq 4."),
  subReward: SubReward.default({ format: 0.1, correct: 0.4, expert: 0.5 }).describe("Reward of a sub-agent, eq 5."),
  alignment: AlignmentConfig.prefault({}).describe("How the trajectories of a sub-agent are aligned between rollouts."),
  ratio: z
    .enum(["token", "sequence", "sequence-mean"])
    .default("token")
    .describe("Granularity of the importance ratio: token, sequence (the paper's product) or sequence-mean (GSPO)."),
  clipLow: z
    .number()
    .positive()
    .exactOptional()
    .describe("The ratio is clipped below 1 - clipLow. Default: 0.2, and 0.0003 for sequence-mean, as in GSPO."),
  clipHigh: z
    .number()
    .positive()
    .exactOptional()
    .describe("The ratio is clipped above 1 + clipHigh. Default: 0.28, and 0.0004 for sequence-mean, as in GSPO."),
  aggregation: z
    .enum(["trajectory-mean", "token-mean", "constant"])
    .default("trajectory-mean")
    .describe("How token losses are averaged: per trajectory, per question (DAPO), or by a constant (Dr. GRPO)."),
  constantTokens: z
    .int()
    .positive()
    .default(256)
    .describe("Tokens by which a trajectory's sum is divided under aggregation constant."),
  advantageScale: z
    .enum(["std", "none"])
    .default("std")
    .describe("Whether advantages are divided by the standard deviation of the group."),
  epsilon: z.number().positive().default(1e-6).describe("Added to the standard deviation before the division."),
  shuffleAdvantages: z
    .boolean()
    .default(false)
    .describe("Control experiment: shuffles rewards within each group, so that advantages carry no information."),
  kl: KlConfig.prefault({}).describe("KL penalty against the frozen reference policy."),
  tisCap: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe("Truncated importance sampling: cap of exp(proximal - behavior). Null: off."),
  ratioMask: RatioMask.nullable()
    .default(null)
    .describe("Masks tokens whose ratio to the behavior policy leaves this range. Null: off."),
  overlong: z
    .enum(["zero", "mask"])
    .default("zero")
    .describe("A truncated conversation gets reward 0 (zero), or is left out of the batch (mask)."),
  minibatches: z.int().positive().default(1).describe("Optimizer steps per batch."),
});

export const AlgorithmConfig = AlgorithmSettings.transform((settings) => ({
  ...CLIP_RANGES[settings.ratio],
  ...settings,
}));
export type AlgorithmConfig = z.infer<typeof AlgorithmConfig>;
