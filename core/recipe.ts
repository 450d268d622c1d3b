/**
 * @file What a recipe is: a folder with `recipe.ts` (config and questions), `rewards.ts` (bundled into functions) and `tools.ts`
 * (loaded by workers only), each exporting the constant named here. `recipes/registry.ts` finds them by name or path.
 */
import type { Arm, RunConfigInput } from "./contracts/config.ts";
import type { QuestionSet } from "./contracts/question.ts";
import type { PolicyEngine, Rewards, Tool } from "./ports.ts";

/** `recipe.ts` exports `recipe: Recipe`. */
export interface Recipe {
  readonly name: string;
  /** The recommended config of an arm of the paper; `run` and `seed` come from the command line. Refuses an arm it does not have. */
  config(arm: Arm): Omit<RunConfigInput, "run" | "recipe" | "arm">;
  /** The questions: a pure function of the seed. */
  questions(seed: number): QuestionSet;
  /** Conversations to pretrain an agent's base model on, if the recipe makes its own. */
  demonstrations?(agent: string, arm: Arm, seed: number): Iterable<Demonstration>;
}

/** A conversation of one agent as text, rendered by the agent's own template; only the assistant's text is learnt. */
export interface Demonstration {
  readonly prompt: string;
  /** Alternating: what the assistant says, then the tool responses that follow (empty after the last). */
  readonly turns: readonly { readonly text: string; readonly responses: readonly string[] }[];
}

/** `rewards.ts` exports `rewards: Rewards`. */
export interface RewardsModule {
  readonly rewards: Rewards;
}

/** `tools.ts` exports `tools`, by name; and, if the recipe brings policies of its own, `policies` (`policy: "recipe:<name>"`). */
export interface ToolsModule {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly policies?: ReadonlyMap<string, PolicyEngine>;
}
