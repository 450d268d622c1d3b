/** @file Policy versions and team versions. The manifest is the version: it is committed last and names its parts by hash. */
import * as z from "zod";
import { AgentName, RunName, Sha256, Step, Version } from "./names.ts";

export const Part = z.strictObject({
  sha256: Sha256,
  bytes: z.int().nonnegative(),
  /**
   * The location of a large file of a base model: `s3://…`, `hf:<owner>/<name>@<commit>/<file>`, or an absolute path, if the run uses one
   * machine. Absent: the file is in the store, under its hash.
   */
  origin: z.string().optional(),
});
export type Part = z.infer<typeof Part>;

/** The base model of a trained adapter, by location and hashes: its `base.json`. */
export const BasePointer = z.strictObject({ path: z.string(), files: z.record(z.string(), Part) });
export type BasePointer = z.infer<typeof BasePointer>;

/**
 * Statistics of one training step of one agent's policy. Counts, `loss` and `entropy` cover the whole batch. The
 * fractions cover the trajectories that can have a gradient, in all epochs. `kl` and `maxRatioDeviation` cover those
 * whose gradient is computed before the first optimizer step: of several minibatches, only the first. The fractions,
 * `kl` and `maxRatioDeviation` are absent if no trajectory can have a gradient. `gradientNorm`: the mean over the optimizer steps.
 */
export const TrainingStats = z.strictObject({
  loss: z.number(),
  gradientNorm: z.number(),
  /** Share of action tokens whose ratio was clipped. */
  clipFraction: z.number().exactOptional(),
  /** Share of action tokens that `ratioMask` left out. Absent, too, if there is no mask. */
  maskedFraction: z.number().exactOptional(),
  /** Share of action tokens whose importance weight was capped at `tisCap`. Absent, too, if there is no cap. */
  truncatedFraction: z.number().exactOptional(),
  /** k3 estimate of KL(behavior || current), mean over action tokens, in nats: sampler's log-probs against the trainer's before the step. */
  kl: z.number().exactOptional(),
  /** max |ratio - 1| over action tokens before the step. A worker warns above 1e-3, unless the rollouts are stale or the base is quantized. */
  maxRatioDeviation: z.number().exactOptional(),
  /**
   * Mean of -log p over action tokens, in nats: an estimate of the sampler's entropy at its temperature. Absent: there
   * were no action tokens, or it was not recorded.
   */
  entropy: z.number().exactOptional(),
  trajectories: z.int(),
  actionTokens: z.int(),
  tokens: z.int(),
});
export type TrainingStats = z.infer<typeof TrainingStats>;

/** Sums over the turns of a worker's training conversations. The calls of one turn run in parallel: the longest counts. */
export const TurnTotals = z.strictObject({
  turns: z.int(),
  /** Seconds of sampling, added up over the turns. */
  sampling: z.number(),
  /** Turns that called tools, and the seconds that they waited; the same for delegations. */
  tools: z.strictObject({ turns: z.int(), seconds: z.number() }),
  delegations: z.strictObject({ turns: z.int(), seconds: z.number() }),
});
export type TurnTotals = z.infer<typeof TurnTotals>;

/** One agent's part in a training step of a policy that agents share. */
export const AgentStats = TrainingStats.extend({
  /** Its share of the policy's loss. */
  share: z.number(),
  /** Norm of the gradient of its share of the loss. Null: the engine does not see gradients. */
  gradientNorm: z.number().nullable(),
});
export type AgentStats = z.infer<typeof AgentStats>;

/**
 * Wall-clock seconds of one worker since its last manifest, by which call is in flight: sampler, trainer or neither. Sampling and
 * training overlap, so the sum may exceed the elapsed time. Not part of a version's identity.
 */
export const WorkerSeconds = z.strictObject({
  sampling: z.number(),
  training: z.number(),
  waiting: z.number(),
  /** Absent: it ran no training conversation. */
  turns: TurnTotals.exactOptional(),
});
export type WorkerSeconds = z.infer<typeof WorkerSeconds>;

/**
 * One version of an agent's policy: its files by hash, and the training step that made it. The version exists once this object is committed, at
 * a key that only the first writer gets. `stats` is null if there was no trajectory to train on; version 0 has neither `stats` nor `seconds`.
 */
export const Manifest = z.strictObject({
  run: RunName,
  agent: AgentName,
  version: Version,
  /** False if there was nothing to learn: the parts are those of the previous version, and the optimizer was not called. */
  trained: z.boolean(),
  /**
   * File name in the Hugging Face layout -> part. `model.safetensors` holds the weights, `optimizer.safetensors` Adam's state; each may
   * be in shards with an index. With an adapter, `adapter_model.safetensors` holds the trained weights, and every version names the same
   * parts of the base model. With a Tinker server, `tinker.json` says where on the server the weights and Adam's state are.
   */
  files: z.record(z.string(), Part),
  stats: TrainingStats.nullable(),
  /** For a policy that agents share: the statistics of each agent that had something to train on. */
  roles: z.record(AgentName, AgentStats).exactOptional(),
  seconds: WorkerSeconds.nullable(),
});
export type Manifest = z.infer<typeof Manifest>;

/** The team after `team` closed steps. */
export const TeamManifest = z.strictObject({
  run: RunName,
  team: Step,
  agents: z.record(AgentName, z.strictObject({ version: Version, manifest: z.string(), sha256: Sha256 })),
});
export type TeamManifest = z.infer<typeof TeamManifest>;
