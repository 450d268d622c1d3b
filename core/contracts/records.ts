/**
 * @file The DynamoDB records: RUN, STEP, GROUP, AGENT, WORKER, JOB, FLEET, TOOLS, JUDGES, AGENTS; CALLS is in tinker-calls.ts. Small, one item
 * each, changed only by the named conditional writes of core/training/writes.ts. Keys (`pk`, `sk`) are the table's and not repeated here.
 */
import * as z from "zod";
import { JudgeCost } from "./judge.ts";
import { AgentName, Digest, GroupIndex, InvocationId, RunName, Sha256, Step, Version, WorkerId } from "./names.ts";

export const RunRecord = z.strictObject({
  run: RunName,
  status: z.enum(["running", "finished", "halted"]),
  /** Why a halted run was halted; empty otherwise. */
  reason: z.string(),
  /** The step that is open or ready now; equals `steps` when the run is finished. */
  step: Step,
  /** Of config.json and questions.json, as start-run found them: who reads others since is told so. */
  configSha256: Sha256,
  questionsSha256: Sha256,
  /** Store time in ms at which start-run founded it. */
  startedAt: z.number(),
  /** What it may spend: the config's budget, raised by `resume --extend-hours` and `--extend-usd`. Null: no limit. */
  maxHours: z.number().nullable(),
  maxUsd: z.number().nullable(),
});
export type RunRecord = z.infer<typeof RunRecord>;

/** What the curriculum remembers from one step to the next. */
export const CurriculumState = z.strictObject({
  stage: z.int().nonnegative(),
  /** Training questions drawn so far, per stage: the position in the stage's seeded order. */
  drawn: z.array(z.int().nonnegative()),
});
export type CurriculumState = z.infer<typeof CurriculumState>;

/** The plan of a step. `groups`, `state` and `round` move; everything else is immutable. */
export const StepRecord = z.strictObject({
  run: RunName,
  step: Step,
  /**
   * open: rollouts wanted (from workers that are done with the step before, also while RUN is there); ready: every group finalized;
   * closed: every manifest is there.
   */
  state: z.enum(["open", "ready", "closed"]),
  /** Question ids; the index is the group's index. Replacement groups are appended. */
  groups: z.array(z.string()).min(1),
  /** Rounds of replacement groups so far (dynamic sampling). */
  round: z.int().nonnegative(),
  /** The one version of each agent that every rollout of this step is sampled from. */
  policy: z.record(AgentName, Version),
  /** Agents that publish a new version at the end of this step. */
  trained: z.array(AgentName),
  /** Tokens that all agents sampled in the counted rollouts of the steps before this one. */
  sampledBefore: z.int().nonnegative(),
  /** In its own, from `ready` on; 0 before. */
  sampledTokens: z.int().nonnegative(),
  /** State after this step's questions were drawn. */
  curriculum: CurriculumState,
});
export type StepRecord = z.infer<typeof StepRecord>;

/** One rollout's scores. `excluded` (infrastructure or judge failure) is out of every mean, std and batch. */
export const RolloutScore = z.union([
  z.strictObject({ excluded: z.string() }),
  z.strictObject({
    /** R_M, eq 4. */
    reward: z.number(),
    /** The main agent's raw correctness, in [0, 1]; what `correctMain` of eq 5 copies. */
    correct: z.number(),
    wellFormed: z.boolean(),
    /** Sampled by all agents together. */
    tokens: z.int().nonnegative(),
    /** Of the outcome's object, as it was scored: a trainer takes no other. Only a score that rests on no object has none. */
    digest: Digest.optional(),
    /** Per sub-agent, its invocations in call order with R_S of eq 5. */
    invocations: z.record(
      AgentName,
      z.array(
        z.strictObject({
          id: InvocationId,
          reward: z.number(),
          expert: z.number(),
          /** Of the invocation's object, likewise. */
          digest: Digest.optional(),
          masked: z.literal(true).optional(),
        }),
      ),
    ),
    /** What its judges cost, where they are models. */
    judged: JudgeCost.exactOptional(),
    /** Truncated under `overlong: mask`: counts in mean and std, gets no weight in the batch. */
    masked: z.literal(true).optional(),
  }),
]);
export type RolloutScore = z.infer<typeof RolloutScore>;

/** What one agent trains on in a finalized group: parallel arrays, one entry per distinct trajectory. */
export const AgentBatch = z.strictObject({
  /** For the main agent the rollout's index; for a sub-agent `<rollout>/<i>`, the i-th of its invocations that `rollouts` names there. */
  trajectories: z.array(z.union([z.int(), z.string().regex(/^\d+\/\d+$/)])),
  /** Share of the group's loss: sums to 1. One entry alone is that of every trajectory. */
  weights: z.array(z.number()),
  /** Normalised advantage, eq 9 or eq 12, to the precision of 32 bits; NaN-free, 0 where std is 0. */
  advantages: z.array(z.number()),
  mean: z.number(),
  std: z.number(),
  /** Copies appended and dropped by alignment. */
  duplicated: z.int(),
  dropped: z.int(),
});
export type AgentBatch = z.infer<typeof AgentBatch>;

export const GroupRecord = z.strictObject({
  run: RunName,
  step: Step,
  group: GroupIndex,
  questionId: z.string(),
  /** K, planned rollouts. */
  rolloutsPerQuestion: z.int(),
  state: z.enum(["open", "finalized"]),
  /**
   * Rollout index -> worker incarnation that runs it, or ran it until it was scored. Absent until somebody begins the group.
   * Only saves work; correctness never rests on it.
   */
  claims: z.record(z.string(), WorkerId).exactOptional(),
  /** Rollout index -> attempts that died with their worker; `judge-<index>` -> failures of its judge. */
  crashes: z.record(z.string(), z.int()),
  /** Rollout index -> score. Complete when it has K entries. */
  rollouts: z.record(z.string(), RolloutScore),
  /** Per agent; empty until finalized; an agent with nothing to train on is absent. */
  finalized: z.record(AgentName, AgentBatch),
  /**
   * Once finalized: seconds since 1970 after which the table may forget it, as the bucket forgets what was said (core/training/retention.ts).
   */
  expiresAt: z.int().exactOptional(),
});
export type GroupRecord = z.infer<typeof GroupRecord>;

export const AgentRecord = z.strictObject({
  run: RunName,
  agent: AgentName,
  /** A cache of the newest manifest: anyone who has seen manifest v+1 may advance v to v+1. */
  version: Version,
  /** The worker that trains this agent; empty when none does. */
  trainer: z.string(),
  /** Raised whenever the place is taken: of two that reach for it, one wins. */
  fence: z.int().nonnegative(),
  /** Takeovers since the version last moved; the third halts the run. */
  takeovers: z.int().nonnegative(),
});
export type AgentRecord = z.infer<typeof AgentRecord>;

export const WorkerRole = z.enum(["rollout", "train", "eval"]);
export type WorkerRole = z.infer<typeof WorkerRole>;

export const WorkerRecord = z.strictObject({
  run: RunName,
  worker: WorkerId,
  /** The agent it serves; an eval worker hosts the whole team and serves `*`. */
  agent: z.union([AgentName, z.literal("*")]),
  roles: z.array(WorkerRole).min(1),
  /** Where its invocations are answered; empty for workers that answer none. */
  url: z.string(),
  state: z.enum(["alive", "draining", "dead"]),
  /** Bumped by every heartbeat. */
  counter: z.int().nonnegative(),
  /** What tick saw last: the counter, and the store's time in ms when it first saw it. */
  seenCounter: z.int(),
  seenAt: z.number(),
  /** `<version>+<hash of its files>/<config sha>/<base sha>`: a worker that differs from the others of the run is refused. */
  release: z.string(),
  /** Rollouts that were in flight when it crashed are suspects, as `<step>/<group>/<rollout>`. */
  inFlight: z.array(z.string()),
});
export type WorkerRecord = z.infer<typeof WorkerRecord>;

/** An evaluation's score: the totals, each run's own, and the 95 % interval of the mean accuracy (core/training/interval.ts). */
export const EvaluationScore = z.strictObject({
  /** Rollouts counted: every question once per run, but those lost to infrastructure. */
  n: z.int().nonnegative(),
  correct: z.number().nonnegative(),
  runs: z.array(z.strictObject({ n: z.int().nonnegative(), correct: z.number().nonnegative() })),
  interval: z.strictObject({ low: z.number().min(0).max(1), high: z.number().min(0).max(1) }),
});
export type EvaluationScore = z.infer<typeof EvaluationScore>;

/** Its score is filled by record-evaluation; until then nothing is known. */
export const JobRecord = EvaluationScore.extend({
  run: RunName,
  /** Hash of team manifest and suite: a repeated event is the same job. */
  job: z.string(),
  team: Step,
  suite: z.string(),
  state: z.enum(["queued", "leased", "done"]),
  owner: z.string(),
  fence: z.int().nonnegative(),
});
export type JobRecord = z.infer<typeof JobRecord>;

/** What a fleet of the deployment does for a run (core/training/fleets.ts). */
export const FleetRecord = z.strictObject({
  run: RunName,
  fleet: AgentName,
  /** Place -> the worker that has it. Places are 0, 1, ... below the number of workers that the run needs of this fleet. */
  places: z.record(z.string(), WorkerId),
  /** How far the run was when instances were last asked for. */
  progress: z.int().nonnegative(),
  /** Times that instances were asked for while the run stood there. */
  raises: z.int().nonnegative(),
  /** Why an instance would not serve the run, and the release that it had: another one of that release would not either. */
  refusal: z.strictObject({ release: z.string(), reason: z.string() }).nullable(),
});
export type FleetRecord = z.infer<typeof FleetRecord>;

/** What a run's tools asked of their backends, and may ask (core/training/tool-spending.ts). Only runs whose tools count have one. */
export const ToolSpendingRecord = z.strictObject({
  run: RunName,
  /** Requests that were really made; answers from a cache cost nothing. */
  calls: z.int().nonnegative(),
  /** Millionths of a dollar. */
  microUsd: z.int().nonnegative(),
  /** Pages and results kept from an agent, since they would give a benchmark away. */
  blocked: z.int().nonnegative(),
  /** Null: no limit. */
  maxCalls: z.int().nullable(),
  maxUsd: z.number().nullable(),
});
export type ToolSpendingRecord = z.infer<typeof ToolSpendingRecord>;

/** What the turns of agents behind APIs with a price have cost (core/training/bills.ts). Only runs that paid for one have it. */
export const AgentSpendingRecord = z.strictObject({
  run: RunName,
  turns: z.int().nonnegative(),
  /** Millionths of a dollar. */
  microUsd: z.int().nonnegative(),
});
export type AgentSpendingRecord = z.infer<typeof AgentSpendingRecord>;

/** What verdicts of models with a price have cost (core/training/bills.ts). Only runs that paid for one have it. */
export const JudgeSpendingRecord = z.strictObject({
  run: RunName,
  /** Answers that were none are paid for, and not counted here. */
  verdicts: z.int().nonnegative(),
  /** Millionths of a dollar. */
  microUsd: z.int().nonnegative(),
});
export type JudgeSpendingRecord = z.infer<typeof JudgeSpendingRecord>;
