/** @file Policy versions and team versions. The manifest is the version: it is committed last and names its parts by hash. */
import * as z from "zod";
import { AgentName, RunName, Sha256, Step, Version } from "./names.ts";

export const Part = z.strictObject({
  sha256: Sha256,
  bytes: z.int().nonnegative(),
  /**
   * Where a large file of a base model lies: an absolute path of the run's one machine, or `s3://`. Absent: in the store, under its hash.
   */
  origin: z.string().optional(),
});
export type Part = z.infer<typeof Part>;

/** What an adapter was trained on: where its base model is, and which bytes that had. Lies beside an exported adapter as `base.json`. */
export const BasePointer = z.strictObject({ path: z.string(), files: z.record(z.string(), Part) });
export type BasePointer = z.infer<typeof BasePointer>;

/** What one training step of one agent did. Losses and norms are of the whole batch. */
export const TrainingStats = z.strictObject({
  loss: z.number(),
  gradientNorm: z.number(),
  /** Share of action tokens whose ratio was clipped. */
  clipFraction: z.number(),
  /** k3 estimate of KL(behaviour || current) over action tokens: sampler against trainer before the step. */
  kl: z.number(),
  /** max |ratio - 1| over action tokens before the step: must stay under 1e-3 with one optimizer step per batch. */
  maxRatioDeviation: z.number(),
  trajectories: z.int(),
  actionTokens: z.int(),
  tokens: z.int(),
});
export type TrainingStats = z.infer<typeof TrainingStats>;

/**
 * Wall-clock seconds of one worker since its last manifest: with a call of a sampler in flight, of a trainer, of neither. It samples while
 * it trains, so together they may be more than went by. Not part of a version's identity.
 */
export const WorkerSeconds = z.strictObject({
  sampling: z.number(),
  training: z.number(),
  waiting: z.number(),
});
export type WorkerSeconds = z.infer<typeof WorkerSeconds>;

export const Manifest = z.strictObject({
  run: RunName,
  agent: AgentName,
  version: Version,
  /** False when there was nothing to learn: the parts are the previous version's and Adam was not called. */
  trained: z.boolean(),
  /**
   * File name in the Hugging Face layout -> part. `model.safetensors` holds the weights, `optimizer.safetensors` Adam's state. Of an
   * agent with an adapter, `adapter_model.safetensors` holds what is trained, and every version names the same parts of its base.
   */
  files: z.record(z.string(), Part),
  stats: TrainingStats.nullable(),
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
