/**
 * @file `mgrpo/recipe`: the types of a recipe's files, and `resolveConfig`, which checks a recipe's config as `mgrpo train` does.
 *
 * - `recipe.ts` exports `recipe: Recipe`.
 * - `tools.ts` exports `tools`, a map by name or an `OpenTools`; optionally `policies`.
 * - `rollout.ts` exports `rollout: Rollout`, if an app runs the rollouts.
 * - `rewards.ts` exports `rewards`, a `Rewards` or an `OpenRewards`. Rewards are numbers in [0, 1].
 *
 * `resolveConfig` throws `MgrpoError` with code `config-invalid`.
 */
export type { AgentAccess, AppCall, AppResult } from "../core/contracts/app-rollout.ts";
export type { Arm, RunConfig, RunConfigInput } from "../core/contracts/config.ts";
export type { Conversation, ToolCall, ToolResponse, Turn } from "../core/contracts/conversation.ts";
export type { Judgment, Verdict } from "../core/contracts/judge.ts";
export type { Question, QuestionSet } from "../core/contracts/question.ts";
export type { Allowance, Invocation } from "../core/contracts/rollout.ts";
export type { PolicyEngine, Rewards, Store, Tool, ToolContext } from "../core/ports.ts";
export type {
  AgentEndpoint,
  BaseModel,
  CaseStudy,
  Demonstration,
  OpenedTools,
  OpenRewards,
  OpenTools,
  RecipeConfig,
  RecipeDefinition as Recipe,
  RewardsModule,
  RewardsOpening,
  Rollout,
  RolloutContext,
  RolloutModule,
  TeamRollout,
  ToolsModule,
  ToolsOpening,
} from "../core/recipe.ts";
export { type Chosen, type RunChoice, resolveConfig } from "../core/training/resolve-config.ts";
