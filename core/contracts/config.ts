/**
 * @file The one run config. Strict: an unknown key is an error. The defaults are the recommendation and stand here, and in
 * the files of this folder that are imported here, alone.
 * What a setting means for the algorithm is explained in core/mgrpo; equation numbers are those of arXiv 2511.13288.
 */
import * as z from "zod";
import { BudgetConfig, budgetFaults } from "./budget.ts";
import { EngineConfig, engineFaults } from "./engine.ts";
import { EvaluationSuite, JUDGED } from "./evaluation-suite.ts";
import { JudgeConfig } from "./judge.ts";
import { AgentEndpoint, endpointFaults } from "./language-model.ts";
import { LORA_POLICIES, LoraConfig } from "./lora.ts";
import { AgentName, RunName, Step } from "./names.ts";
import { QuestionFiles } from "./question.ts";
import { tinkerFaults } from "./tinker-policy.ts";

/**
 * What is compared: the method; the paper's baselines, `main-only` (frozen sub-agents) and `single-agent` (one model with all tools);
 * its ablation, `no-alignment` (Fig 8), beside our `weighted-alignment`; and a control that cannot learn, `shuffled-advantages`.
 * What each changes: core/training/resolve.ts.
 */
export const Arm = z.enum([
  "mgrpo",
  "main-only",
  "single-agent",
  "no-alignment",
  "weighted-alignment",
  "shuffled-advantages",
]);
export type Arm = z.infer<typeof Arm>;

export const OptimizerConfig = z.strictObject({
  learningRate: z.number().positive().default(5e-4),
  beta1: z.number().min(0).lt(1).default(0.9),
  beta2: z.number().min(0).lt(1).default(0.99),
  epsilon: z.number().positive().default(1e-8),
  weightDecay: z.number().min(0).default(0),
  /** Global-norm clipping of the whole gradient. Null: none. */
  maxGradientNorm: z.number().positive().nullable().default(1),
});
export type OptimizerConfig = z.infer<typeof OptimizerConfig>;

/** An agent's optimizer over a whole run. */
export const ScheduledOptimizer = OptimizerConfig.extend({
  /** `linear`: the learning rate falls from `learningRate` to 0 over the run. */
  schedule: z.enum(["constant", "linear"]).default("constant"),
});
export type ScheduledOptimizer = z.infer<typeof ScheduledOptimizer>;

export const AgentConfig = z.strictObject({
  /** Folder (or `s3://` prefix) of a checkpoint in the Hugging Face layout; behind an API, the model as the server calls it. */
  model: z.string().min(1),
  /**
   * `compiled`, `eager`, a Tinker server (`tinker:<url>[?rank=16][#<base model>]`), a policy that the recipe brings (`recipe:<name>`), or
   * an API (`openai:<base url>`, `bedrock:<region>`).
   */
  policy: z.string().default("compiled"),
  endpoint: AgentEndpoint.optional(),
  /** False: frozen at version 0; nobody waits for it. */
  trained: z.boolean().default(true),
  /** Names of the recipe's tools this agent may call. */
  tools: z.array(z.string()).default([]),
  /** Agents it may delegate to; only the main agent delegates. */
  delegates: z.array(AgentName).default([]),
  /** Text of the system message; empty for none. */
  system: z.string().default(""),
  /** Whether the chat template lets it think before it speaks, where the template leaves the choice (`enable_thinking`). Absent: as the template has it. */
  thinking: z.boolean().exactOptional(),
  limits: z
    .strictObject({
      turns: z.int().positive().default(8),
      /** New tokens of one turn. */
      turnTokens: z.int().positive().default(64),
      /** Tokens of the whole conversation, prompt and responses included. */
      contextTokens: z.int().positive().default(512),
      /** Calls in one turn; more is malformed. */
      calls: z.int().positive().default(4),
      /** Characters of one tool response that reach the model; the rest is cut with a mark. */
      responseCharacters: z.int().positive().default(4000),
      /** The same in tokens of the agent's own tokenizer, where it has one here; whichever is reached first cuts. Absent: characters alone. */
      responseTokens: z.int().positive().exactOptional(),
    })
    .prefault({}),
  /** Trains an adapter and leaves the model as it is; `{}` takes the defaults. Null: every weight is trained. */
  lora: LoraConfig.nullable().default(null),
  optimizer: ScheduledOptimizer.prefault({}),
  /** Worker processes that serve it, each on an instance of its own where fleets start them. More of them only roll out more at a time. */
  workers: z.int().positive().default(1),
  engine: EngineConfig.prefault({}),
});
export type AgentConfig = z.infer<typeof AgentConfig>;

/** Every decision of the objective that the paper leaves open; see core/mgrpo/README.md. */
export const AlgorithmConfig = z.strictObject({
  /** eq 4: format and correctness. */
  mainReward: z.strictObject({ format: z.number(), correct: z.number() }).default({ format: 0.1, correct: 0.9 }),
  /** eq 5: format, the main agent's correctness, the expert's judgement. */
  subReward: z
    .strictObject({ format: z.number(), correct: z.number(), expert: z.number() })
    .default({ format: 0.1, correct: 0.4, expert: 0.5 }),
  alignment: z
    .strictObject({
      mode: z.enum(["resample", "weighted", "none"]).default("resample"),
      /** d of eq 11: aligned trajectories per rollout. */
      d: z.int().positive().default(2),
    })
    .prefault({}),
  ratio: z.enum(["token", "sequence", "sequence-mean"]).default("token"),
  clipLow: z.number().positive().default(0.2),
  clipHigh: z.number().positive().default(0.28),
  aggregation: z.enum(["trajectory-mean", "token-mean", "constant"]).default("trajectory-mean"),
  /** `constant` only: the tokens by which a trajectory's sum is divided. */
  constantTokens: z.int().positive().default(256),
  advantageScale: z.enum(["std", "none"]).default("std"),
  /** Added to std. */
  epsilon: z.number().positive().default(1e-6),
  /** The control: rewards are dealt out at random within each group, so that no advantage says anything about its trajectory. */
  shuffleAdvantages: z.boolean().default(false),
  kl: z
    .strictObject({
      coefficient: z.number().min(0).default(0),
      estimator: z.enum(["k1", "k2", "k3"]).default("k3"),
    })
    .prefault({}),
  /** Truncated importance sampling: cap of exp(proximal - behaviour), proximal being the trainer before the step; null is off. */
  tisCap: z.number().positive().nullable().default(null),
  /** Tokens whose ratio leaves [low, high] are masked; null is off. */
  ratioMask: z
    .strictObject({ low: z.number().min(0), high: z.number().positive() })
    .nullable()
    .default(null),
  /** A truncated conversation is malformed (`zero`), or out of the batch (`mask`). */
  overlong: z.enum(["zero", "mask"]).default("zero"),
  /** Optimizer steps per batch. */
  minibatches: z.int().positive().default(1),
});
export type AlgorithmConfig = z.infer<typeof AlgorithmConfig>;

export const RunConfig = z
  .strictObject({
    run: RunName,
    recipe: z.string().min(1),
    seed: z.int().nonnegative().default(1),
    arm: Arm.default("mgrpo"),
    steps: z.int().positive(),
    /**
     * Makes the step that brings the tokens sampled by all agents to so many the last one, if it comes before `steps`: runs of teams
     * that say more or less are then compared at the same amount of sampling. Null: `steps` alone decides.
     */
    sampledTokens: z.int().positive().nullable().default(null),
    /** Groups (questions) per step. */
    questionsPerStep: z.int().positive().default(8),
    /** K. */
    rolloutsPerQuestion: z.int().min(2).default(8),
    /** Sampling temperature of training rollouts, inside the training graph too. Top-p is 1 and top-k off there. */
    temperature: z.number().positive().default(1),
    /** The agent that is asked. */
    main: AgentName.default("main"),
    agents: z.record(AgentName, AgentConfig),
    /** Of one's own, instead of the recipe's. */
    questions: QuestionFiles.exactOptional(),
    /** Settings of the recipe's tools, in the form that its tools.ts parses. Never a key: only the name of the variable that holds it. */
    tools: z.record(z.string(), z.json()).default({}),
    algorithm: AlgorithmConfig.prefault({}),
    /** Stages in order: from `fromStep` on, questions of these levels. */
    curriculum: z
      .array(
        z.strictObject({
          fromStep: z.int().nonnegative(),
          levels: z.array(z.int().positive()).min(1),
        }),
      )
      .min(1)
      .default([{ fromStep: 0, levels: [1, 2, 3, 4, 5, 6, 7, 8, 9] }]),
    /** The model that judges, where the recipe's rewards or a benchmark ask one. */
    judge: JudgeConfig.exactOptional(),
    /** Rounds of fresh questions that replace groups with no variance (DAPO's dynamic sampling). */
    dynamicSampling: z.strictObject({ rounds: z.int().nonnegative().default(0) }).prefault({}),
    /** Versions that an agent may be behind when a step opens. Asynchronous mode is not built: only 0. */
    staleness: z.literal(0, { error: "only 0 is built: every step waits for the one before" }).default(0),
    evaluation: z
      .strictObject({
        /** Steps between evaluated teams; 0 evaluates only before and after. */
        every: z.int().nonnegative().default(0),
        suites: z.array(EvaluationSuite).default([]),
        /** Worker processes that evaluate; each takes one job at a time. */
        workers: z.int().positive().default(1),
        /**
         * The number that the run's first team has in addresses, and so in random streams. `mgrpo eval <run>` sets it to the number of
         * the run's last team, so that it draws what the run's own evaluation drew. Absent: 0.
         */
        firstTeam: Step.exactOptional(),
      })
      .prefault({}),
    retention: z
      .strictObject({
        last: z.int().min(2).default(2),
        /** Every n-th version is kept; 0 keeps none for that reason. */
        keepEvery: z.int().nonnegative().default(0),
      })
      .prefault({}),
    limits: z
      .strictObject({
        /** Wall clock of one attempt at a rollout, from when the run is at its step. */
        rolloutSeconds: z.number().positive().default(120),
        /** Wall clock of one invocation, as its caller waits, likewise. */
        invocationSeconds: z.number().positive().default(60),
        /** Attempts at a rollout that infrastructure may spoil before it is given up. */
        attempts: z.int().positive().default(5),
        /** Share of rollouts lost to infrastructure over 10 steps that halts the run. */
        lostFraction: z.number().min(0).max(1).default(0.01),
      })
      .prefault({}),
    budget: BudgetConfig.prefault({}),
    liveness: z
      .strictObject({
        heartbeatSeconds: z.number().positive().default(1),
        /** A worker whose counter stood still for so long is dead. */
        leaseSeconds: z.number().positive().default(10),
        /** Polling of the store while there is work; backs off to ten times that when idle. */
        pollSeconds: z.number().positive().default(0.05),
      })
      .prefault({}),
  })
  .superRefine((config, context) => {
    const names = Object.keys(config.agents);
    const say = (path: (string | number)[], message: string) => context.addIssue({ code: "custom", path, message });
    if (!names.includes(config.main)) {
      say(["main"], `no agent '${config.main}' in agents (${names.join(", ")}): name one of them`);
    }
    for (const [name, agent] of Object.entries(config.agents)) {
      for (const [setting, message] of endpointFaults(agent)) say(["agents", name, setting], message);
      if (name !== config.main && agent.delegates.length > 0) {
        say(["agents", name, "delegates"], `only the main agent '${config.main}' delegates: remove it`);
      }
      if (agent.lora !== null && !LORA_POLICIES.includes(agent.policy)) {
        say(
          ["agents", name, "lora"],
          `policy '${agent.policy}' does not take it: set lora to null, or policy to one of ${LORA_POLICIES.join(", ")}`,
        );
      }
      for (const delegate of agent.delegates) {
        if (!names.includes(delegate) || delegate === config.main) {
          say(["agents", name, "delegates"], `'${delegate}' is no sub-agent of this team`);
        }
      }
    }
    for (const name of names) {
      if (name !== config.main && !config.agents[config.main]?.delegates.includes(name)) {
        say(["agents", name], `nobody delegates to '${name}': add it to agents.${config.main}.delegates or remove it`);
      }
    }
    for (const [path, message] of [...tinkerFaults(config), ...engineFaults(config.agents)]) say(path, message);
    for (const [path, message] of budgetFaults(config)) say([...path], message);
    const asksHeldOut = config.evaluation.suites.find(({ benchmark }) => benchmark === undefined);
    if (asksHeldOut && config.questions && config.questions.heldOut === undefined) {
      say(
        ["questions", "heldOut"],
        `suite '${asksHeldOut.name}' asks the held-out questions: name a file of them, or leave the suite out`,
      );
    }
    const judged = config.evaluation.suites.find(({ benchmark }) => benchmark && JUDGED.includes(benchmark));
    if (judged && !config.judge) {
      say(["judge"], `suite '${judged.name}' needs a judge: set judge.model, for instance to openai#gpt-5-mini`);
    }
    if (config.liveness.leaseSeconds < 3 * config.liveness.heartbeatSeconds) {
      say(["liveness", "leaseSeconds"], "must be at least three heartbeats");
    }
    if (config.curriculum[0]?.fromStep !== 0) say(["curriculum"], "the first stage must start at step 0");
  });
export type RunConfig = z.infer<typeof RunConfig>;
/** What a recipe writes: defaults may be left out. */
export type RunConfigInput = z.input<typeof RunConfig>;
