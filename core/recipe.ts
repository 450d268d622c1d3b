/**
 * @file What a recipe is: a folder with `recipe.ts` (config and questions), `rewards.ts` (bundled into functions) and `tools.ts`
 * (loaded by workers and commands), each exporting the constant named here. A recipe whose rollouts an app runs needs no `tools.ts`; its
 * `rollout.ts` exports the app, unless the config gives its URL. `recipes/modules.ts` finds the files by the recipe's name or path.
 */
import type { AgentAccess, AppCall, AppResult } from "./contracts/app-rollout.ts";
import type { Arm, RunConfig, RunConfigInput } from "./contracts/config.ts";
import type { Conversation } from "./contracts/conversation.ts";
import type { Question, QuestionSet } from "./contracts/question.ts";
import type { Allowance, Invocation } from "./contracts/rollout.ts";
import type { PolicyEngine, Rewards, Store, Tool } from "./ports.ts";
import type { Chosen } from "./training/resolve-config.ts";

/** What a recipe recommends for a run. `run`, `recipe`, `arm` and `seed` come from the command line; everything left out has a default. */
export type RecipeConfig = Omit<RunConfigInput, "run" | "recipe" | "arm" | "seed">;

/** A recipe as the program uses it. */
export interface Recipe {
  readonly name: string;
  /**
   * The recommended config of an arm. Only `single-agent` needs another team: what the other arms freeze or change is applied
   * afterward (core/training/resolve-config.ts), and so are the user's settings. The config may depend on those settings (`chosen`):
   * another model needs other limits.
   */
  config(arm: Arm, chosen: Chosen): RecipeConfig;
  /** The questions: a pure function of the seed. */
  questions(seed: number): QuestionSet;
  /** Turns a user's prompt into a question for `mgrpo ask`, with the facts that tools need and no reference answer. Absent: no facts. */
  ask?(prompt: string): Question;
  /** One line that readers of the question's rollouts need, e.g. that its facts are shuffled on purpose. Undefined: nothing. */
  note?(question: Question): string | undefined;
  /** Behaviors that training should bring about, measured on the held-out questions before and after. */
  readonly caseStudies?: readonly CaseStudy[];
  /** The base models that `mgrpo pretrain` makes; `mgrpo train`, `dev` and `compare` make those that are missing. */
  readonly baseModels?: readonly BaseModel[];
  /** What `mgrpo sft` teaches an agent of an arm: a finite sequence, and a pure function of the seed. Absent: the recipe has none. */
  demonstrations?(agent: string, arm: Arm, seed: number): Iterable<Demonstration>;
}

/**
 * What `recipe.ts` exports as `recipe`; `mgrpo/recipe` calls it `Recipe`. Its config may be an object if it depends on nothing. TypeScript
 * reports misspelled keys in an object, and in a function whose return type is declared as `RecipeConfig`.
 */
export type RecipeDefinition = Omit<Recipe, "config"> & { readonly config: RecipeConfig | Recipe["config"] };

/** A behavior to count: in the run's report, in comparisons, and as examples under `mgrpo show <run> cases`. */
export interface CaseStudy {
  readonly name: string;
  /** The behavior that counts as correct, in one line. */
  readonly expected: string;
  /** Each check of a rollout, in order: whether the agent behaved as expected. Empty: nothing to check. */
  checks(question: Question, rollout: TeamRollout): readonly boolean[];
}

/** One rollout of the whole team: the main agent's conversation, and its sub-agents' in the order of the calls. */
export interface TeamRollout {
  readonly conversation: Conversation;
  readonly invocations: readonly Invocation[];
}

/** A base model that is made from random weights by imitating demonstrations. */
export interface BaseModel {
  /**
   * The agent that the model is for, and its arm: the agent's system message and tools are part of the conversations. A model that several
   * agents share names one of them; a demonstration of another names its own.
   */
  readonly agent: string;
  readonly arm: Arm;
  /** The checkpoint's folder. */
  readonly folder: string;
  readonly seed: number;
  /** The checkpoint's files except its weights; `config.json` gives the model's shape. */
  files(): ReadonlyMap<string, Uint8Array>;
  /** An endless sequence. */
  demonstrations(): Iterable<Demonstration>;
  readonly training: {
    /** Tokens of demonstrations in total, and per batch. */
    readonly tokens: number;
    readonly batchTokens: number;
    /** AdamW's peak learning rate, after a linear warm-up over the first `warmUp` share; it then decays to a tenth along a cosine. */
    readonly learningRate: number;
    readonly warmUp: number;
  };
}

/** A conversation of one agent as text, rendered by the agent's own template. Only the assistant's text is trained on. */
export interface Demonstration {
  /** The agent whose conversation this is, where one base model is for several agents. Absent: the base model's `agent`. */
  readonly agent?: string;
  readonly prompt: string;
  readonly turns: readonly DemonstrationTurn[];
}

/** The assistant's text, then the tool responses that follow it (none after the last turn). */
export interface DemonstrationTurn {
  readonly text: string;
  readonly responses: readonly string[];
}

/** The argument of `OpenRewards`, which a process may call again for the same run. */
export interface RewardsOpening {
  /** `config.judge` has the judge's settings. */
  readonly config: RunConfig;
  /** The environment variables of the process, which hold the keys. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Throws `config-invalid` when a setting or a key is missing, before anything is judged. */
export type OpenRewards = (opening: RewardsOpening) => Rewards;

/** `rewards.ts` exports `rewards`: an object, or a function if they need the config or a key. */
export interface RewardsModule {
  readonly rewards: Rewards | OpenRewards;
}

/** The argument of `OpenTools`, which is called once per worker, and by each command that reads the tools' schemas. */
export interface ToolsOpening {
  /** `config.tools` has the tools' settings. */
  readonly config: RunConfig;
  /** The environment variables of the process, which hold the keys. A key is sent only to its own backend. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The run's store. Absent: only the tools' names and schemas are read, and no tool is called. */
  readonly store?: Store;
}

/** Tools by name, until they are closed. */
export interface OpenedTools {
  readonly tools: ReadonlyMap<string, Tool>;
  /** One rollout's tool budget, over all its conversations. Absent: no limit. */
  readonly allowance?: Allowance;
  /** Ends the connections, threads and processes that were started for them. */
  close(): Promise<void>;
}

/** Rejects with `config-invalid` when a setting or a key is missing, before any tool is called. */
export type OpenTools = (opening: ToolsOpening) => Promise<OpenedTools>;

/**
 * `tools.ts` exports `tools` by name, or an `OpenTools` if they take settings or keys or must be closed; and optionally the recipe's
 * own `policies` (`policy: "recipe:<name>"`).
 */
export interface ToolsModule {
  readonly tools: ReadonlyMap<string, Tool> | OpenTools;
  readonly policies?: ReadonlyMap<string, PolicyEngine>;
}

/** How an app reaches one agent of the team: what every OpenAI client takes. */
export interface AgentEndpoint extends AgentAccess {
  /** The agent's name, for clients that want to name their provider. */
  readonly name: string;
}

/** One attempt at a question by an app. */
export interface RolloutContext {
  /** Without the reference answer. */
  readonly question: AppCall["question"];
  /** By name. The keys are good for this attempt only. */
  readonly agents: Readonly<Record<string, AgentEndpoint>>;
  /** Aborts when the attempt is abandoned: pass it to the clients. */
  readonly signal: AbortSignal;
}

/**
 * An app as it is: its own loop, prompts and tools, with the team's agents as its models. It is called K times per question, concurrently,
 * and must keep no state between calls. If it throws, the attempt is repeated; `{ failed }` is the team's own failure.
 */
export type Rollout = (context: RolloutContext) => Promise<AppResult>;

/** `rollout.ts` exports `rollout`. The program loads it where `runner` is "recipe". */
export interface RolloutModule {
  readonly rollout: Rollout;
}
