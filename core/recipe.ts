/**
 * @file What a recipe is: a folder with `recipe.ts` (config and questions), `rewards.ts` (bundled into functions) and `tools.ts`
 * (loaded by workers only), each exporting the constant named here. `recipes/registry.ts` finds them by name or path.
 */
import type { Arm, RunConfig, RunConfigInput } from "./contracts/config.ts";
import type { Conversation } from "./contracts/conversation.ts";
import type { Question, QuestionSet } from "./contracts/question.ts";
import type { Allowance, Invocation } from "./contracts/rollout.ts";
import type { PolicyEngine, Rewards, Store, Tool } from "./ports.ts";
import type { Chosen } from "./training/resolve.ts";

/** What a recipe recommends for a run. `run` and `seed` come from the command line; everything left out has a default. */
export type RecipeConfig = Omit<RunConfigInput, "run" | "recipe" | "arm">;

/** A recipe as the program uses it. */
export interface Recipe {
  readonly name: string;
  /**
   * The recommended config of an arm. Only `single-agent` has a team of its own: what the other arms freeze or change is applied
   * afterwards (core/training/resolve.ts), and so is what the user chose, which the advice may depend on: another model wants other
   * limits.
   */
  config(arm: Arm, chosen: Chosen): RecipeConfig;
  /** The questions: a pure function of the seed. */
  questions(seed: number): QuestionSet;
  /** A question of the user's own, as `mgrpo ask` puts it: with what the tools need, and no reference answer. Absent: it has no facts. */
  ask?(prompt: string): Question;
  /** Behaviours that training should bring about, measured on the held-out questions before and after. */
  readonly caseStudies?: readonly CaseStudy[];
  /** The base models that `mgrpo pretrain` makes, if the recipe brings its own. */
  readonly baseModels?: readonly BaseModel[];
}

/**
 * What `recipe.ts` exports as `recipe`; `mgrpo/recipe` calls it `Recipe`. Its config is an object where it depends on nothing. TypeScript
 * reports misspelt keys in an object, and in a function whose return type is written out as `RecipeConfig`.
 */
export type RecipeDefinition = Omit<Recipe, "config"> & { readonly config: RecipeConfig | Recipe["config"] };

/** A behaviour as something to count: in the run's report, in comparisons, and as examples under `mgrpo show <run> cases`. */
export interface CaseStudy {
  readonly name: string;
  /** What counts as right, in one line. */
  readonly right: string;
  /** The occasions that a rollout of the question had, in order: whether the right thing was done. None: it had no occasion. */
  occasions(question: Question, rollout: TeamRollout): readonly boolean[];
}

/** What a whole team said to one question: the main agent's conversation, and its sub-agents' in the order of the calls. */
export interface TeamRollout {
  readonly conversation: Conversation;
  readonly invocations: readonly Invocation[];
}

/** How a base model is made: from random weights, by imitating demonstrations. */
export interface BaseModel {
  /** The agent it is to be, in which arm: its system message and tools shape the conversations. */
  readonly agent: string;
  readonly arm: Arm;
  /** The checkpoint's folder. */
  readonly folder: string;
  readonly seed: number;
  /** Everything of the checkpoint but its weights; `config.json` gives the model's shape. */
  files(): ReadonlyMap<string, Uint8Array>;
  /** Endless. */
  demonstrations(): Iterable<Demonstration>;
  readonly training: {
    /** Tokens of demonstrations in all, and of one batch. */
    readonly tokens: number;
    readonly batchTokens: number;
    /** AdamW's, after a linear warm-up over the first `warmUp` share; falls to a tenth along a cosine. */
    readonly learningRate: number;
    readonly warmUp: number;
  };
}

/** A conversation of one agent as text, rendered by the agent's own template; only the assistant's text is learnt. */
export interface Demonstration {
  readonly prompt: string;
  /** Alternating: what the assistant says, then the tool responses that follow (empty after the last). */
  readonly turns: readonly { readonly text: string; readonly responses: readonly string[] }[];
}

/** What rewards are opened with, once per process and run. */
export interface RewardsOpening {
  /** A judge's settings are `config.judge`. */
  readonly config: RunConfig;
  /** The process's variables, where keys are. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Throws `config-invalid` when a setting or a key is missing, before anything is judged. */
export type OpenRewards = (opening: RewardsOpening) => Rewards;

/** `rewards.ts` exports `rewards`, or what opens them, where they ask a judge. */
export interface RewardsModule {
  readonly rewards: Rewards | OpenRewards;
}

/** What tools are opened with, once per worker. */
export interface ToolsOpening {
  /** Their settings are `config.tools`. */
  readonly config: RunConfig;
  /** The worker's variables, where keys are: a key goes nowhere but to the backend it is for. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The run's. Absent: the tools are only looked at, for their names and schemas, and never called. */
  readonly store?: Store;
}

/** Tools by name, until they are closed. */
export interface OpenedTools {
  readonly tools: ReadonlyMap<string, Tool>;
  /** What one rollout may ask of them, all its conversations together. Absent: as much as it likes. */
  readonly allowance?: Allowance;
  /** Ends what was started for them: connections, threads, other programs. */
  close(): Promise<void>;
}

/** Rejects with `config-invalid` when a setting or a key is missing, before anything is asked of the tools. */
export type OpenTools = (opening: ToolsOpening) => Promise<OpenedTools>;

/**
 * `tools.ts` exports `tools`, by name, or what opens them, where they take settings or keys or must be closed; and, if the recipe brings
 * policies of its own, `policies` (`policy: "recipe:<name>"`).
 */
export interface ToolsModule {
  readonly tools: ReadonlyMap<string, Tool> | OpenTools;
  readonly policies?: ReadonlyMap<string, PolicyEngine>;
}
