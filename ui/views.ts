/**
 * @file What the dashboard's server (cli/ui) sends to its pages (ui/app): one schema per view; compare-view.ts and timeline-view.ts have two
 * more. Text from models, tools and web pages is always plain text, never markup.
 */
import * as z from "zod";
import { Arm } from "../core/contracts/config.ts";
import { AgentName, GroupIndex, RolloutIndex, RunName, Step } from "../core/contracts/names.ts";
import { SharedPolicy } from "../core/contracts/shared-policy.ts";
import { StoreWrites } from "../core/contracts/store-writes.ts";
import { StepSummary } from "../core/monitoring/step-summary.ts";
import { TeamEvaluation } from "../core/monitoring/team-evaluation.ts";

export const Tag = z.strictObject({ text: z.string(), tone: z.enum(["good", "bad", "plain", "faint"]) });
export type Tag = z.infer<typeof Tag>;

/** A node of a rollout's tree, or of the groups and case studies above it. */
export const Tree = z.strictObject({
  title: z.string(),
  /** Short facts next to the title. */
  tags: z.array(Tag).readonly(),
  /** The recipe's note for the reader. */
  note: z.string().optional(),
  /** Longer text: a prompt, an output or a tool response. */
  body: z.string().optional(),
  /** Whether a page shows it folded. */
  folded: z.boolean().optional(),
  /** Whether a page shows its children in columns. */
  sideBySide: z.boolean().optional(),
  /** The trajectory whose tokens can be shown: `main`, `main/<branch>` or an invocation's id. */
  trajectory: z.string().optional(),
  get children() {
    return z.array(Tree).readonly();
  },
});
export type Tree = z.infer<typeof Tree>;

/** A run's row in the list of runs. */
export const RunRow = z.strictObject({
  run: RunName,
  recipe: z.string(),
  arm: Arm,
  seed: z.int(),
  state: z.enum(["running", "stopped", "finished", "halted"]),
  reason: z.string(),
  /** Closed steps, and steps in total. */
  step: z.int(),
  steps: z.int(),
  /** Base model by agent. */
  models: z.record(AgentName, z.string()),
  /** Mean reward of the newest closed step by agent; empty before the first, and if its scores have expired. */
  reward: z.record(AgentName, z.number().nullable()),
  /** Share of held-out questions answered correctly, before and after training. */
  heldOut: z.strictObject({ before: z.number().nullable(), after: z.number().nullable() }),
  /** Wall-clock seconds of all sessions; null if the run was not trained in this folder. */
  seconds: z.number().nullable(),
  /** What it has cost so far; null: unknown. */
  usd: z.number().nullable(),
  /** Seconds since a scheduled tick last saw a heartbeat of a worker that is not dead; null: none is known, or the run is not running. */
  heartbeatSeconds: z.number().nullable(),
  /** What it is doing or waiting for; null if nothing. */
  wait: z.string().nullable(),
  /** Why it makes no progress; null if it is not stalled. */
  stall: z.string().nullable(),
});
export type RunRow = z.infer<typeof RunRow>;

/** A run whose records cannot be read. */
export const DamagedRun = z.strictObject({ run: z.string(), state: z.literal("damaged"), reason: z.string() });
export type DamagedRun = z.infer<typeof DamagedRun>;

export const RunsView = z.strictObject({
  runs: z.array(z.union([RunRow, DamagedRun])),
  /** Why the runs of the store named by the environment variables could not be read; null if they could, or if no store is named. */
  failure: z.string().nullable(),
});
export type RunsView = z.infer<typeof RunsView>;

export const AgentView = z.strictObject({
  name: AgentName,
  model: z.string(),
  system: z.string(),
  tools: z.array(z.string()),
  delegates: z.array(AgentName),
  /** Absent if no other agent shares its policy. */
  shared: SharedPolicy.exactOptional(),
});
export type AgentView = z.infer<typeof AgentView>;

export const WorkerView = z.strictObject({
  worker: z.string(),
  agent: z.string(),
  roles: z.array(z.string()),
  state: z.enum(["alive", "draining", "dead"]),
  /** Seconds since its last heartbeat was seen; null: none was seen yet, or it is dead. */
  silentSeconds: z.number().nullable(),
  /** Whether it counts as alive, yet has sent no heartbeat for longer than its lease. */
  isSilent: z.boolean(),
});
export type WorkerView = z.infer<typeof WorkerView>;

/** A run's row without its heartbeat, activity and stall, which are in its pulse. */
const RunFacts = RunRow.omit({ heartbeatSeconds: true, wait: true, stall: true });

export const RunView = RunFacts.extend({
  /** Writes to the table so far; null if the run was not trained in this folder. */
  writes: StoreWrites.nullable(),
  agents: z.array(AgentView),
  perStep: z.array(StepSummary),
  evaluations: z.array(TeamEvaluation),
  warnings: z.array(z.string()),
  /** The resolved config. */
  config: z.json(),
});
export type RunView = z.infer<typeof RunView>;

/** The live state of a run: what can change without a new step. */
export const RunPulse = z.strictObject({
  state: RunRow.shape.state,
  reason: z.string(),
  /** Closed steps whose summaries can be read. A step closes in the store a moment before its summary can be read. */
  closed: z.int(),
  /** The current step; after the last one, the number of steps. */
  step: z.int(),
  /** The open step; null while the next one is being planned, once all are closed, and if the run is not running. */
  openStep: z.int().nullable(),
  /** What the run is doing or waiting for; null if nothing. */
  wait: z.string().nullable(),
  /** Why it makes no progress, and what would unblock it; null if it is not stalled. */
  stall: z.string().nullable(),
  /** What it has cost so far; null if it is halted, or is a local run that is not running: its store is not read. */
  usd: z.number().nullable(),
  workers: z.array(WorkerView),
});
export type RunPulse = z.infer<typeof RunPulse>;

export const QuestionView = z.strictObject({
  id: z.string(),
  kind: z.string(),
  level: z.int(),
  prompt: z.string(),
  answer: z.string(),
  /** The recipe's note for the reader. */
  note: z.string().nullable(),
});
export type QuestionView = z.infer<typeof QuestionView>;

/** `open`: not scored yet. `lost`: excluded because the infrastructure or the judge failed. */
export const RolloutOutcome = z.enum(["open", "lost", "malformed", "wrong", "partly", "correct"]);
export type RolloutOutcome = z.infer<typeof RolloutOutcome>;

export const RolloutCell = z.strictObject({
  rollout: RolloutIndex,
  outcome: RolloutOutcome,
  reward: z.number().nullable(),
  advantage: z.number().nullable(),
  tokens: z.int(),
  /** Truncated under `overlong: mask`. */
  masked: z.boolean(),
  /** Invocations by sub-agent. */
  calls: z.record(AgentName, z.int()),
  /** Why it is lost; empty otherwise. */
  reason: z.string(),
});
export type RolloutCell = z.infer<typeof RolloutCell>;

export const GroupRow = z.strictObject({
  group: GroupIndex,
  question: QuestionView,
  /** Trained agent -> why it learns nothing from the group; null if it learns. */
  noSignal: z.record(AgentName, z.string().nullable()),
  /** Mean and standard deviation of the main agent's rewards; null if that agent has no batch. */
  mean: z.number().nullable(),
  std: z.number().nullable(),
  rollouts: z.array(RolloutCell),
});
export type GroupRow = z.infer<typeof GroupRow>;

export const StepView = z.strictObject({
  step: Step,
  state: z.enum(["open", "ready", "closed"]),
  summary: StepSummary.nullable(),
  /** One page of its groups, in the requested order. */
  groups: z.array(GroupRow),
  page: z.int(),
  pages: z.int(),
  /** Whether the next step has been planned. */
  hasNext: z.boolean(),
});
export type StepView = z.infer<typeof StepView>;

/** What a search can filter rollouts by, besides text. */
export const RolloutFilter = z.enum(["any", "wrong", "malformed", "cut", "tool-failed", "lost", "correct"]);
export type RolloutFilter = z.infer<typeof RolloutFilter>;

export const SearchView = z.strictObject({
  hits: z.array(
    z.strictObject({
      group: GroupIndex,
      rollout: RolloutIndex,
      outcome: RolloutOutcome,
      reward: z.number().nullable(),
      agent: AgentName,
      /** Text around the match. Without a search text: why the rollout is lost, a failed tool response, the answer or the prompt. */
      excerpt: z.string(),
      /** The recipe's note on the question. */
      note: z.string().nullable(),
    }),
  ),
  /** The group at which the next page begins; null on the last page. */
  next: z.int().nullable(),
});
export type SearchView = z.infer<typeof SearchView>;

export const GroupView = z.strictObject({ step: Step, row: GroupRow, trees: z.array(Tree) });
export type GroupView = z.infer<typeof GroupView>;

export const RolloutView = z.strictObject({
  step: Step,
  row: GroupRow,
  rollout: RolloutIndex,
  tree: Tree,
  /** The other steps that asked the same question, each with the first group that did. */
  sameQuestion: z.array(z.strictObject({ step: Step, group: GroupIndex })),
});
export type RolloutView = z.infer<typeof RolloutView>;

/** A trajectory of T tokens. */
export const TokenView = z.strictObject({
  agent: AgentName,
  version: z.int(),
  /** The text of each of the T tokens. */
  tokens: z.array(z.string()),
  /** Half-open spans [start, end) of the action tokens, which the policy sampled. */
  actions: z.array(z.tuple([z.int(), z.int()])),
  /** Log-probs of the action tokens at the sampling temperature. */
  logProbs: z.array(z.number()),
  /** The trainer's log-probs of the action tokens, as first computed, and the indices of those that it clipped; null: not stored. */
  trained: z.strictObject({ logProbs: z.array(z.number()), clipped: z.array(z.int()) }).nullable(),
});
export type TokenView = z.infer<typeof TokenView>;

export const EvaluationView = z.strictObject({
  job: z.string(),
  team: Step,
  suite: z.string(),
  /** In the order of the question set. */
  questions: z.array(z.strictObject({ question: z.string(), kind: z.string(), n: z.int(), correct: z.number() })),
});
export type EvaluationView = z.infer<typeof EvaluationView>;

export const EvaluationsView = z.strictObject({
  evaluations: z.array(EvaluationView),
  /** Whether the recipe has case studies. */
  hasCases: z.boolean(),
  /** The texts of the questions that may be shown, by id; those of encrypted benchmarks are left out. */
  prompts: z.record(z.string(), z.string()),
  /** The recipe's notes on these questions, by id; a question without one is absent. */
  notes: z.record(z.string(), z.string()),
});
export type EvaluationsView = z.infer<typeof EvaluationsView>;

/** The recipe's case studies: held-out questions before and after training. */
export const CasesView = z.strictObject({ trees: z.array(Tree) });
export type CasesView = z.infer<typeof CasesView>;

export const AnswersView = z.strictObject({ question: QuestionView, trees: z.array(Tree) });
export type AnswersView = z.infer<typeof AnswersView>;

/** Why a page has no view: the server sends it, or the page makes it. */
export const Failure = z.strictObject({ code: z.string(), message: z.string() });
export type Failure = z.infer<typeof Failure>;
