/**
 * @file The DynamoDB records of runs. Each is one item, changed only by the writes of core/training. The keys (`pk`, `sk`,
 * in keys.ts) are not part of the record.
 *
 *     under the run      RUN, STEP, AGENT, WORKER, JOB; FLEET (fleet-record.ts); the spending records TOOLS, JUDGES and AGENTS (spending.ts);
 *                        CALLS (tinker-calls.ts)
 *                        PAST, a WORKER that is long dead (core/training/past-workers.ts)
 *     own partitions     GROUP, so that the writes of a step spread over partitions
 *                        VERDICT (verdict-record.ts), one per judged trajectory and judge
 *     lists of runs      RUNS, those that the schedule ticks; ARCHIVE, the names of those that have left that list
 *     of the table       DEPLOYMENT (deployment.ts)
 */
import * as z from "zod";
import { Reason, RecordedText } from "./bounds.ts";
import { HaltCode } from "./halt.ts";
import { JudgeCost } from "./judge.ts";
import {
  AgentName,
  Digest,
  GroupIndex,
  InvocationId,
  JobId,
  QuestionId,
  RolloutIndex,
  RunName,
  Sha256,
  Step,
  Version,
  WorkerId,
} from "./names.ts";
import { OptimizerProbe } from "./server-optimizer.ts";

/** Workers whose records have left the run (core/training/past-workers.ts). */
export const PastWorkers = z.strictObject({
  /** Number of moves so far. */
  moves: z.int().positive(),
  /** Agent, or `*` -> number of heartbeats that all its moved workers sent. */
  heartbeats: z.record(z.string(), z.int().nonnegative()),
  /** The workers of the newest move. Any WORKER record that one of them still has no longer counts toward the budget. */
  newest: z.array(WorkerId),
});
export type PastWorkers = z.infer<typeof PastWorkers>;

/** A run's progress, and its limits in hours and US dollars. */
export const RunRecord = z.strictObject({
  run: RunName,
  status: z.enum(["running", "finished", "halted"]),
  /** Why a halted run was halted; empty otherwise. */
  reason: Reason,
  /** What halted it. Absent: it is not halted, or was halted by a release that recorded only the reason. */
  haltCode: HaltCode.exactOptional(),
  /** The oldest step that is not closed. Of a finished run, the number of its steps. */
  step: Step,
  /** Hashes of config.json and questions.json, as start-run read them. Readers refuse objects with other hashes. */
  configSha256: Sha256,
  questionsSha256: Sha256,
  /** Store time in ms at which start-run wrote it. */
  startedAt: z.number(),
  /** Limits: the config's budget, raised by `--budget-hours` and `--budget-usd`. Null: no limit. */
  maxHours: z.number().nullable(),
  maxUsd: z.number().nullable(),
  /** Lost rollouts count from this step on: those of earlier steps have halted the run (core/training/lost-rollouts.ts). Absent: all count. */
  lossesFrom: Step.exactOptional(),
  /** Absent: there are none. */
  past: PastWorkers.exactOptional(),
});
export type RunRecord = z.infer<typeof RunRecord>;

/** A run in the list of ticked runs (core/training/run-list.ts). */
export const ListedRun = z.strictObject({
  run: RunName,
  /** Its progress, recorded at most once a minute; its status once it is over and its workers are dead; empty after a resume. Absent at first. */
  progress: z.string().max(100).exactOptional(),
  /** Store time in ms at which `progress` was recorded. */
  progressAt: z.number().exactOptional(),
  /** Archived: ticks skip the run, and the table may delete the item from then on, in seconds since 1970. */
  expiresAt: z.int().exactOptional(),
});
export type ListedRun = z.infer<typeof ListedRun>;

/** The curriculum's state between two steps. */
export const CurriculumState = z.strictObject({
  stage: z.int().nonnegative(),
  /** Training questions drawn or reserved so far, per stage: the position in the stage's seeded order. */
  drawn: z.array(z.int().nonnegative()),
  /** Positions left for the step's replacement rounds. Absent: none. */
  reserve: z.array(z.int().nonnegative()).exactOptional(),
});
export type CurriculumState = z.infer<typeof CurriculumState>;

/** The plan of a step. Only `state`, `groups`, `round`, `curriculum` and `sampledTokens` ever change. */
export const StepRecord = z.strictObject({
  run: RunName,
  step: Step,
  /**
   * open: rollouts are missing; ready: every group is finalized; closed: every manifest is published. Steps close in order; with `staleness`,
   * several are open at once.
   */
  state: z.enum(["open", "ready", "closed"]),
  /** Question ids; the index is the group's index. Replacement groups are appended. */
  groups: z.array(QuestionId).min(1),
  /** Rounds of replacement groups so far (dynamic sampling). */
  round: z.int().nonnegative(),
  /** The one version of each agent that every rollout of this step is sampled from. */
  policy: z.record(AgentName, Version),
  /** Agents that publish a new version at the end of this step. */
  trained: z.array(AgentName),
  /** Tokens that all agents sampled in steps 0 to `step - staleness - 1`. Lost rollouts do not count. */
  sampledBefore: z.int().nonnegative(),
  /** Tokens sampled in this step. 0 until the step is ready. */
  sampledTokens: z.int().nonnegative(),
  /** State after this step's questions were drawn. */
  curriculum: CurriculumState,
  /** If `evaluation.every` is a share of the run: the newest team to evaluate during training, of those up to the one that this step produces. */
  dueTeam: Version.exactOptional(),
});
export type StepRecord = z.infer<typeof StepRecord>;

/** One entry per turn; null: the turn has no reward of its own. */
const ScoredTurns = z.array(z.number().nullable());

export const ScoredInvocation = z.strictObject({
  id: InvocationId,
  /** R_S, eq 5, less the overlong penalty. */
  reward: z.number(),
  expert: z.number(),
  /** Digest of the scored invocation object. Trainers refuse any other. */
  digest: Digest.optional(),
  /**
   * true: truncated under `overlong: mask`, counts in mean and std, is not in the batch. caller: a sub-agent's conversation that led to it is
   * masked, so its reward is unknown and it counts in no mean, std or batch. No invocation of a masked rollout counts, whatever is set here.
   */
  masked: z.literal([true, "caller"]).optional(),
  /** Rewards of its turns, under a `turnWeight` above 0. */
  turns: ScoredTurns.exactOptional(),
});
export type ScoredInvocation = z.infer<typeof ScoredInvocation>;

export const ScoredRollout = z.strictObject({
  /** R_M, eq 4, less the overlong penalty of its longest branch. */
  reward: z.number(),
  /** The main agent's raw correctness in [0, 1]: `correct_M` of eq 5. */
  correct: z.number(),
  wellFormed: z.boolean(),
  /** Tokens sampled by all agents. */
  tokens: z.int().nonnegative(),
  /** Digest of the scored outcome object. Trainers refuse any other. */
  digest: Digest.optional(),
  /** Per sub-agent, its invocations in call order. */
  invocations: z.record(AgentName, z.array(ScoredInvocation)),
  /** The judges' cost, if they are models. */
  judged: JudgeCost.exactOptional(),
  /** Truncated under `overlong: mask`: counts in mean and std, is not in the batch. */
  masked: z.literal(true).optional(),
  /** Rewards of the main agent's turns, under a `turnWeight` above 0. */
  turns: ScoredTurns.exactOptional(),
});
export type ScoredRollout = z.infer<typeof ScoredRollout>;

/** A rollout's score. `excluded`: lost to infrastructure or a failing judge, and left out of every mean, std and batch. */
export const RolloutScore = z.union([z.strictObject({ excluded: Reason }), ScoredRollout]);
export type RolloutScore = z.infer<typeof RolloutScore>;

/** What one agent trains on in a finalized group: parallel arrays, one entry per distinct trajectory. */
export const AgentBatch = z.strictObject({
  /** Of the main agent: the rollout's index. Of a sub-agent: `<rollout>/<i>`, its i-th scored invocation in that rollout. */
  trajectories: z.array(z.union([z.int(), z.string().regex(/^\d+\/\d+$/)])),
  /** Shares of the group's loss, summing to 1. A single entry applies to every trajectory: `trajectoryWeights` expands it. */
  weights: z.array(z.number()),
  /**
   * Normalized advantages, eq 9 or eq 12, rounded to 32 bits. Never NaN; 0 if std is 0. Divided by the group's std only under
   * `advantageScale: std`; under `batch` the trainer divides them by the standard deviation of its batch, under `none` nothing does.
   */
  advantages: z.array(z.number()),
  /**
   * Added to the advantage of each turn, per trajectory; empty for a conversation that is not well-formed. Absent:
   * `turnWeight` is 0.
   */
  turns: z.array(z.array(z.number())).exactOptional(),
  mean: z.number(),
  std: z.number(),
  /** Copies that alignment appended, and trajectories that it dropped. */
  duplicated: z.int(),
  dropped: z.int(),
});
export type AgentBatch = z.infer<typeof AgentBatch>;

/** One question of a step: the claims and scores of its K rollouts, and, once all are scored, what each agent trains on (`finalizeGroup`). */
export const GroupRecord = z.strictObject({
  run: RunName,
  step: Step,
  group: GroupIndex,
  questionId: QuestionId,
  /** K, planned rollouts. */
  rolloutsPerQuestion: z.int(),
  state: z.enum(["open", "finalized"]),
  /**
   * Rollout index -> worker that runs it, or ran it until it was scored. Absent until the first claim. Claims only avoid duplicate work;
   * correctness never depends on them.
   */
  claims: z.record(z.string(), WorkerId).exactOptional(),
  /** Worker that crashed while it ran one rollout alone -> that rollout's index. A worker crashes once, so a second count has no effect. */
  crashes: z.record(z.string(), RolloutIndex),
  /** Rollout index -> score. Complete when it has K entries. */
  rollouts: z.record(z.string(), RolloutScore),
  /** Per agent; empty until finalized; an agent with nothing to train on is absent. */
  finalized: z.record(AgentName, AgentBatch),
  /**
   * Set when finalized, in seconds since 1970: the table may delete it from then on, as the bucket does with conversations
   * (core/training/retention.ts).
   */
  expiresAt: z.int().exactOptional(),
});
export type GroupRecord = z.infer<typeof GroupRecord>;

export const AgentRecord = z.strictObject({
  run: RunName,
  agent: AgentName,
  /** A cache of the newest manifest's version. Anyone who has seen manifest v+1 may advance it to v+1. */
  version: Version,
  /** The worker that trains this agent. Empty: none. */
  trainer: z.string(),
  /** Incremented by every claim, so that only one of two concurrent claims succeeds. */
  fence: z.int().nonnegative(),
  /** Takeovers since the last new version. The third halts the run, and the count is reset. */
  takeovers: z.int().nonnegative(),
  /** What its newest trainer measured of its server's own optimizer. Absent: AdamW with the config's settings. */
  optimizer: OptimizerProbe.exactOptional(),
});
export type AgentRecord = z.infer<typeof AgentRecord>;

export const WorkerRole = z.enum(["rollout", "train", "eval"]);
export type WorkerRole = z.infer<typeof WorkerRole>;

export const WorkerRecord = z.strictObject({
  run: RunName,
  worker: WorkerId,
  /** The agent that the worker serves. `*`: an eval worker, which hosts the whole team. */
  agent: z.union([AgentName, z.literal("*")]),
  roles: z.array(WorkerRole).min(1),
  /** The address of its invocation server. Empty: none. */
  url: RecordedText,
  state: z.enum(["alive", "draining", "dead"]),
  /** Incremented by every heartbeat. */
  counter: z.int().nonnegative(),
  /** The counter that tick last recorded, and the store time in ms at which it did. */
  seenCounter: z.int(),
  seenAt: z.number(),
  /** Store time in ms at which tick first found the lease expired. It applies to the current counter only if later than `seenAt`. */
  suspectedAt: z.number().exactOptional(),
  /** `<version>+<hash of its files>/<config sha>/<base sha>`. A worker that differs from the run's others is refused. */
  release: RecordedText,
  /**
   * The rollout that it runs alone, as `<step>/<group>/<rollout>`, or those of an evaluation job that was leased before, as
   * `eval:<job>/<group>/<rollout>` (core/training/evaluation-suspects.ts); else empty. A dead worker keeps them if it crashed, not if it drained.
   */
  inFlight: z.array(z.string()),
  /** Number of rollouts that it runs, as last reported: for monitoring only. Absent: not reported yet. */
  running: z.int().nonnegative().exactOptional(),
  /** Number of its rollouts that wait to run alone, likewise. */
  quarantined: z.int().nonnegative().exactOptional(),
  /** Set in PAST, and when the finished run is archived, in seconds since 1970: the table may delete it from then on. */
  expiresAt: z.int().exactOptional(),
});
export type WorkerRecord = z.infer<typeof WorkerRecord>;

/** An evaluation's score: totals, per-run scores, and the 95% interval of the mean accuracy (core/training/confidence-interval.ts). */
export const EvaluationScore = z.strictObject({
  /** Rollouts counted: every question once per run, except lost ones and those without a reference answer. */
  n: z.int().nonnegative(),
  correct: z.number().nonnegative(),
  runs: z.array(z.strictObject({ n: z.int().nonnegative(), correct: z.number().nonnegative() })),
  interval: z.strictObject({ low: z.number().min(0).max(1), high: z.number().min(0).max(1) }),
});
export type EvaluationScore = z.infer<typeof EvaluationScore>;

/** An evaluation job. Its score is empty until record-evaluation writes it. */
export const JobRecord = EvaluationScore.extend({
  run: RunName,
  /** Contains a hash of the team manifest and suite, so a repeated event yields the same job. */
  job: JobId,
  team: Step,
  suite: z.string(),
  state: z.enum(["queued", "leased", "done"]),
  owner: z.string(),
  fence: z.int().nonnegative(),
  /**
   * Rollouts that may have crashed its worker, as `<group>/<rollout>` -> crashes while it ran alone (core/training/evaluation-suspects.ts).
   * Absent: there are none.
   */
  suspects: z.record(z.string(), z.int().nonnegative()).exactOptional(),
});
export type JobRecord = z.infer<typeof JobRecord>;
