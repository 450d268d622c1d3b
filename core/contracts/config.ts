/**
 * @file The config of a run. Strict: an unknown key is an error. The defaults are our recommendation and are written only here and in the
 * files of this folder that this one imports, directly or indirectly. Every setting has a description, available at run time
 * (`schema.description`).
 */
import * as z from "zod";
import { type AgentConfig, Agents, decayFaults } from "./agent-config.ts";
import { AlgorithmConfig, Staleness } from "./algorithm-config.ts";
import { algorithmFaults } from "./algorithm-overrides.ts";
import { MIN_ROLLOUTS_PER_QUESTION } from "./bounds.ts";
import { BudgetConfig, budgetFaults } from "./budget.ts";
import type { ConfigFault } from "./config-fault.ts";
import { CurriculumStage, curriculumFaults } from "./curriculum.ts";
import { delegationFaults } from "./delegation.ts";
import { engineFaults } from "./engine.ts";
import { EvaluationSuite, needsJudge } from "./evaluation-suite.ts";
import { JudgeConfig } from "./judge.ts";
import { endpointFaults, isEndpointPolicy } from "./language-model.ts";
import { LORA_POLICIES, supportsLora } from "./lora.ts";
import { AgentName, RunName, Step } from "./names.ts";
import { QuestionFiles, RECIPE_QUESTIONS } from "./question.ts";
import { sizeFaults } from "./record-sizes.ts";
import { MAX_TEMPERATURE } from "./rollout.ts";
import { Draws, RunnerConfig, runnerFaults } from "./runner.ts";
import { serverOptimizerFaults } from "./server-optimizer.ts";
import { ownsPolicy, resolvePolicies, sharedPolicyFaults } from "./shared-policy.ts";
import { tinkerFaults } from "./tinker-policy.ts";
import { TrackerName } from "./tracking.ts";

/**
 * The arms of a comparison: the method; the paper's baselines `main-only` (frozen sub-agents) and `single-agent` (one model with all tools);
 * its ablation `no-alignment` (Fig 8), and our `weighted-alignment`; `shared-policy` (all agents have one set of weights); and the control
 * `shuffled-advantages`, which cannot learn. What each arm changes: core/training/resolve-config.ts.
 */
export const Arm = z.enum([
  "mgrpo",
  "main-only",
  "single-agent",
  "no-alignment",
  "weighted-alignment",
  "shared-policy",
  "shuffled-advantages",
]);
export type Arm = z.infer<typeof Arm>;

const DynamicSampling = z.strictObject({
  rounds: z
    .int()
    .nonnegative()
    .default(0)
    .describe(
      "Rounds per step in which new questions replace groups from which the main agent (or, if it is frozen, every trained agent) learns nothing. 0: off.",
    ),
});

const EvaluationConfig = z.strictObject({
  every: z
    .number()
    .nonnegative()
    .refine((every) => every < 1 || Number.isInteger(every), "must be a number of steps, or a share of the run below 1")
    .default(0)
    .describe(
      "Steps between evaluations, or, below 1, a share of the run: of its steps or of its sampledTokens, whichever is larger. 0: only before and after training.",
    ),
  suites: z
    .array(EvaluationSuite)
    .default([])
    .describe("Question sets that each evaluated team answers. Default: none."),
  workers: z.int().positive().default(1).describe("Worker processes that evaluate, each one job at a time."),
  firstTeam: Step.exactOptional().describe(
    "Number of the first team in the names of random streams. `mgrpo eval <run>` sets it, to repeat the draws of the run's own evaluation.",
  ),
});

const RetentionConfig = z.strictObject({
  last: z
    .int()
    .min(2)
    .default(2)
    .describe("Newest versions of an agent's weights that are kept, besides those that `staleness` adds."),
  keepEvery: z
    .int()
    .nonnegative()
    .default(0)
    .describe(
      "Every n-th version is kept forever, besides version 0, the last, references and evaluated versions. 0: only those.",
    ),
});

const LimitsConfig = z.strictObject({
  rolloutSeconds: z.number().positive().default(120).describe("Wall-clock seconds of one attempt at a rollout."),
  invocationSeconds: z
    .number()
    .positive()
    .default(60)
    .describe(
      "Wall-clock seconds that a caller waits for an invocation. Waiting for a free worker and for the step to open does not count.",
    ),
  turnSeconds: z
    .number()
    .positive()
    .default(3600)
    .describe(
      "Wall-clock seconds that an engine may take to sample one turn. Then the turn is canceled. An engine thread that does not stop within as much time again, at most 60 s, is restarted.",
    ),
  toolSeconds: z.number().positive().default(300).describe("Wall-clock seconds of one tool call."),
  // score-rollout may run for 540 seconds.
  verdictSeconds: z
    .number()
    .positive()
    .max(480)
    .default(180)
    .describe(
      "Wall-clock seconds of one verdict of a judge or of the recipe's rewards, all votes and retries included.",
    ),
  trainingSeconds: z
    .number()
    .positive()
    .default(7200)
    .describe(
      "Wall-clock seconds of one engine call in training: a pass over part of a batch, an optimizer step, a save. After that, the worker abandons the step, which is then claimed again.",
    ),
  attempts: z
    .int()
    .positive()
    .default(5)
    .describe(
      "Attempts at a rollout that fails for infrastructure reasons, and judge answers without a verdict, before the rollout is abandoned.",
    ),
  lostFraction: z
    .number()
    .min(0)
    .max(1)
    .default(0.01)
    .describe(
      "Share of the rollouts of the last 10 steps that may be lost to infrastructure or judges. A larger share halts the run.",
    ),
});

const LivenessConfig = z.strictObject({
  heartbeatSeconds: z.number().positive().default(1).describe("Seconds between a worker's heartbeats."),
  leaseSeconds: z
    .number()
    .positive()
    .default(10)
    .describe(
      "Seconds without a heartbeat after which a worker counts as dead. At least three times heartbeatSeconds.",
    ),
  pollSeconds: z
    .number()
    .positive()
    .default(0.05)
    .describe("Seconds between a worker's polls of the store, up to ten times that when idle."),
});

const RunSettings = z.strictObject({
  run: RunName.describe("The run's name: letters, digits, '.', '_' and '-'."),
  recipe: z.string().min(1).describe("The recipe: its name, or the path of a folder."),
  seed: z.int().nonnegative().default(1).describe("Seed of every random draw of the run."),
  arm: Arm.default("mgrpo").describe(
    "The method, or one of the baselines, ablations and controls that it is compared with.",
  ),
  steps: z.int().positive().describe("Training steps."),
  sampledTokens: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe(
      "Ends the run once all agents together have sampled this many tokens, after the steps then in flight. Null: off.",
    ),
  questionsPerStep: z.int().positive().default(8).describe("Questions (groups) per step."),
  rolloutsPerQuestion: z.int().min(MIN_ROLLOUTS_PER_QUESTION).default(8).describe("K: rollouts per question."),
  temperature: z
    .number()
    .positive()
    .max(MAX_TEMPERATURE)
    .default(1)
    .describe("Sampling temperature of training rollouts, and of log-probs in training."),
  main: AgentName.default("main").describe("The agent that receives the question."),
  agents: Agents.describe("The team: settings by agent name."),
  questions: QuestionFiles.exactOptional().describe("Your own questions instead of the recipe's."),
  tools: z
    .record(z.string(), z.json())
    .default({})
    .describe(
      "Settings of the recipe's tools, as its tools.ts parses them. Never API keys: only names of variables that hold them.",
    ),
  runner: RunnerConfig.default("native").describe(
    "Who runs rollouts: native (this program's own loop), recipe (the app in the recipe's rollout.ts), or a remote app that receives them over HTTP.",
  ),
  draws: Draws,
  algorithm: AlgorithmConfig.prefault({}).describe("The settings of M-GRPO."),
  curriculum: z
    .array(CurriculumStage)
    .min(1)
    .default([{ from: 0, levels: [1, 2, 3, 4, 5, 6, 7, 8, 9] }])
    .describe("Stages in order, each with the difficulty of its questions. The first starts at 0."),
  judge: JudgeConfig.exactOptional().describe("The LLM judge, if the recipe's rewards or a benchmark need one."),
  dynamicSampling: DynamicSampling.prefault({}).describe("Replacement of zero-variance groups (DAPO)."),
  staleness: Staleness,
  evaluation: EvaluationConfig.prefault({}).describe("When teams are evaluated, and on what."),
  retention: RetentionConfig.prefault({}).describe("Which versions of the weights are kept."),
  limits: LimitsConfig.prefault({}).describe("Time limits, attempts and allowed losses."),
  budget: BudgetConfig.prefault({}).describe("What the run may spend."),
  liveness: LivenessConfig.prefault({}).describe("How dead workers are detected."),
  track: z
    .array(TrackerName)
    .default([])
    .describe(
      "Trackers that the metrics go to, besides metrics.jsonl: tensorboard, mlflow; otlp gets the rollouts as traces (docs/trackers.md).",
    ),
  trackContent: z
    .boolean()
    .default(false)
    .describe("Whether prompts, outputs, calls and responses go to otlp too. Never those of encrypted benchmarks."),
});

/**
 * The config of a run, with all defaults. It refuses unknown keys, settings that contradict each other, and most that the chosen policy,
 * provider or runner would ignore (see also ignored-settings.ts); each issue of the `ZodError` has the setting's path.
 */
export const RunConfig = RunSettings.superRefine((config, context) => {
  for (const [path, message] of configFaults(config)) context.addIssue({ code: "custom", path: [...path], message });
});
export type RunConfig = z.infer<typeof RunConfig>;
/** A config before the defaults are filled in, as a recipe writes it. */
export type RunConfigInput = z.input<typeof RunConfig>;

/** Settings that contradict each other, or would be ignored: path and message. */
function configFaults(config: RunConfig): ConfigFault[] {
  const agents = resolvePolicies(config.agents);
  const owners = Object.fromEntries(Object.entries(agents).filter(([name]) => ownsPolicy(config.agents, name)));
  return [
    ...teamFaults(config),
    ...sharedPolicyFaults(config.agents, isEndpointPolicy),
    ...algorithmFaults({ ...config, agents }),
    ...tinkerFaults({ ...config, agents }),
    ...serverOptimizerFaults(owners),
    ...decayFaults(owners),
    ...engineFaults(owners),
    ...budgetFaults(config),
    ...evaluationFaults(config),
    ...timingFaults(config),
    ...curriculumFaults(config.curriculum),
    ...runnerFaults(config),
    ...sizeFaults(config),
  ];
}

function teamFaults(config: RunConfig): ConfigFault[] {
  const { main, agents } = config;
  const names = Object.keys(agents);
  const faults = Object.entries(agents).flatMap(([name, agent]) => agentFaults(name, agent));
  if (!names.includes(main)) {
    return [[["main"], `no agent '${main}' in agents (${names.join(", ")}): name one of them`], ...faults];
  }
  return [...faults, ...delegationFaults(config)];
}

/** A run's report has times under these names beside the agents'. */
const RESERVED_NAMES = ["scoring", "total"];

function agentFaults(name: string, agent: AgentConfig): ConfigFault[] {
  const { policy, lora } = agent;
  const faults: ConfigFault[] = endpointFaults(agent).map(([path, message]) => [["agents", name, ...path], message]);
  if (RESERVED_NAMES.includes(name)) faults.push([["agents", name], "no agent can have this name: choose another"]);
  if (lora !== null && !policy.startsWith("of:") && !supportsLora(policy)) {
    const message = `policy '${policy}' does not take it: set lora to null, or policy to one of ${LORA_POLICIES.join(", ")}, tinker:<url>`;
    faults.push([["agents", name, "lora"], message]);
  }
  return faults;
}

function evaluationFaults({ evaluation, questions, judge }: RunConfig): ConfigFault[] {
  const names = evaluation.suites.map(({ name }) => name);
  const faults: ConfigFault[] = names.flatMap((name, i): ConfigFault[] =>
    names.indexOf(name) === i
      ? []
      : [[["evaluation", "suites", i, "name"], `two suites are named '${name}': give this one another name`]],
  );
  const onHeldOut = evaluation.suites.find(({ benchmark }) => benchmark === undefined);
  if (onHeldOut && questions && questions.heldOut === undefined) {
    const message = `suite '${onHeldOut.name}' asks the held-out questions: set it to a file of them or, for the recipe's, to '${RECIPE_QUESTIONS}'; or leave the suite out`;
    faults.push([["questions", "heldOut"], message]);
  }
  const judged = evaluation.suites.find(needsJudge);
  if (judged && !judge) {
    const message = `suite '${judged.name}' needs a judge: set judge.model, for instance to openai#gpt-5-mini`;
    faults.push([["judge"], message]);
  }
  return faults;
}

function timingFaults({ liveness }: RunConfig): ConfigFault[] {
  // Rounded, since 3 * 0.1 is more than 0.3 in floating point.
  if (Math.fround(liveness.leaseSeconds) >= Math.fround(3 * liveness.heartbeatSeconds)) return [];
  return [[["liveness", "leaseSeconds"], "must be at least three heartbeats: raise it, or lower heartbeatSeconds"]];
}
