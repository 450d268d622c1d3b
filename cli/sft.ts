/**
 * @file `mgrpo sft <recipe> --to <folder>`: supervised training of a team's agents, one after the other, from
 * demonstrations. All demonstrations are read and checked before the first agent is trained. The same command resumes
 * training that was killed.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { lockDirectory } from "../adapters/local-cloud/lock.ts";
import type { AgentConfig } from "../core/contracts/agent-config.ts";
import type { Arm, RunConfig } from "../core/contracts/config.ts";
import { LORA_POLICIES } from "../core/contracts/lora.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { agentsOfPolicy, ownerOf, ownsPolicy, policySettings } from "../core/contracts/shared-policy.ts";
import { MgrpoError } from "../core/errors.ts";
import type { CheckpointFiles, Tool } from "../core/ports.ts";
import type { Demonstration, ToolsModule } from "../core/recipe.ts";
import { resolveConfig } from "../core/training/resolve-config.ts";
import { ADAPTER_CONFIG_FILE } from "../engine/checkpoint/adapter.ts";
import { wholeFile } from "../engine/checkpoint/files.ts";
import { sha256 } from "../engine/hash.ts";
import { openEngine } from "../engine/index.ts";
import { openTokenizer } from "../engine/tokenizer/tokenizer.ts";
import { engineOptions } from "../gpu-workers/engine-options.ts";
import { openAgentLayout } from "../gpu-workers/rollouts/agent-layout.ts";
import { openNamedRecipe, openTools, openToolsModule } from "../recipes/registry.ts";
import { openAppLayout } from "../sft/app-example.ts";
import { type Split, split } from "../sft/batches.ts";
import { allTokens, type Example, exampleOf, refuseEarlyEnd, refuseTooLong } from "../sft/example.ts";
import type { TrainingPlan } from "../sft/learn.ts";
import { responsesWithin } from "../sft/shown-response.ts";
import { PROGRESS_FILE } from "../sft/state.ts";
import { type AgentTraining, type OpenedState, openState, trainAgent } from "../sft/train-agent.ts";
import { readPolicyBase } from "./local/base-models.ts";
import { isHubModel, pinModels, StartedModels } from "./local/hub-models.ts";
import { refuseUntrainable } from "./local/model-needs.ts";
import { writeAtomically } from "./local/written-files.ts";
import { followTraining } from "./sft/follow.ts";
import { type ExampleInput, type ExampleSource, openDemonstrations, type SourceOptions } from "./sft/sources.ts";
import { refuseSettingsOfRuns } from "./unread-settings.ts";

export interface SftOptions extends SourceOptions {
  /** The folder that each agent's model is written to, as `<to>/<agent>`. */
  readonly to: string;
  /** The agent to train alone; absent: all that the arm trains. */
  readonly agent?: string;
  readonly arm: Arm;
  readonly seed: number;
  /** Settings of the config, as `<path>=<value>`. */
  readonly set: readonly string[];
  /** Passes over the demonstrations; absent: one. */
  readonly epochs?: number;
  /** Tokens to train on, instead of a number of passes. */
  readonly tokens?: number;
  /** Minimum number of tokens per step; demonstrations are never split. */
  readonly batchTokens: number;
  /** AdamW's peak rate; absent: one of `LEARNING_RATE`. */
  readonly learningRate?: number;
  /** Share of the demonstrations that is not trained on, in [0, 1). */
  readonly heldOut: number;
  /** Steps between held-out losses, each followed by a checkpoint. */
  readonly evaluateEvery: number;
  /** Training ends after this many held-out losses in a row without a new minimum. */
  readonly patience: number;
}

const FOLDER_IN_USE = { code: "config-invalid", instead: "give another --to" } as const;
/** In an agent's state folder: its hub model, with the commit. */
const STARTED_FILE = "model.json";
/** Share of the tokens to train on over which the learning rate rises to its peak. */
const WARM_UP_SHARE = 0.05;
/**
 * Maximum examples of an evaluation: more would make it slow, and its loss hardly more precise. Further held-out examples are neither evaluated
 * nor trained on.
 */
const MAX_HELD_OUT = 32;
/** The learning rate of LoRA is about ten times that of training all weights (Schulman et al. 2025, "LoRA Without Regret"). */
const LEARNING_RATE = { adapter: 1e-3, allWeights: 1e-4 };

export async function sft(recipeName: string, options: SftOptions): Promise<void> {
  const recipe = await openNamedRecipe(recipeName);
  const { arm, seed, set } = options;
  checkOptions(options);
  const settings = [...set, "steps=1"];
  const resolved = resolveConfig(recipe, { run: "sft", seed, arm, set: settings, recipe: recipeName });
  const config = await pinModels(resolved, startedFrom(options.to, resolved));
  const agents = agentsOf(config, options.agent);
  const source = await openDemonstrations(recipe, config, options, options.agent);
  const module = await openToolsModule(recipeName);
  const { tools, close } = await openTools(module, { config, environment: process.env });
  try {
    const team: SftTeam = { config, module, tools, source };
    const trainings: AgentTraining[] = [];
    for (const agent of agents) trainings.push(await prepare(team, agent, options));
    await trainAll(trainings, config);
  } finally {
    await close();
  }
}

/** Locks the state of every agent first: two commands may train different agents into one folder, but never the same agent. */
async function trainAll(trainings: readonly AgentTraining[], config: RunConfig): Promise<void> {
  const releases: (() => Promise<void>)[] = [];
  try {
    for (const { stateFolder } of trainings) releases.push(await lockDirectory(stateFolder, FOLDER_IN_USE));
    // All folders are checked before the first agent is trained, since training may take hours.
    const opened: [AgentTraining, OpenedState][] = [];
    for (const training of trainings) opened.push([training, await openState(training)]);
    for (const training of trainings) recordStart(training, config);
    for (const [training, state] of opened) await followTraining(training, (one) => trainAgent(one, state));
  } finally {
    for (const release of releases) await release();
  }
}

const stateOf = (to: string, agent: string): string => join(to, ".sft", agent);

/** The hub models that training in this folder started from: a name without a revision keeps its commit. */
function startedFrom(to: string, { agents }: RunConfig): StartedModels {
  const models = Object.keys(agents).flatMap((name) => {
    const path = join(stateOf(to, name), STARTED_FILE);
    return existsSync(path) ? Object.entries(parseJson(StartedModels, readFileSync(path), path).agents) : [];
  });
  return { agents: Object.fromEntries(models) };
}

/** Once a checkpoint is saved, what the training started from does not change. */
function recordStart({ agent, stateFolder }: AgentTraining, { agents }: RunConfig): void {
  const model = agents[agent]?.model ?? "";
  if (!isHubModel(model) || existsSync(join(stateFolder, PROGRESS_FILE))) return;
  writeAtomically(join(stateFolder, STARTED_FILE), JSON.stringify({ agents: { [agent]: { model } } }));
}

/** What `sft` has in place of M-GRPO's setting. */
function remedyFor(path: string): string | undefined {
  if (path.endsWith(".optimizer")) return "leave it out, and set sft's own learning rate with --learning-rate";
  if (["steps", "sampledTokens", "budget"].includes(path)) return "--epochs or --tokens says how long sft trains";
  return undefined;
}

function checkOptions({ fromRun, minReward, heldOut, set }: SftOptions): void {
  refuseSettingsOfRuns("sft", set, { remedyFor });
  if (minReward !== undefined && fromRun === undefined) {
    throw new MgrpoError("config-invalid", "--min-reward goes with --from-run <run>: add it");
  }
  if (heldOut < 1) return;
  throw new MgrpoError("config-invalid", `--held-out ${heldOut}: must be a share of the demonstrations, below 1`);
}

interface SftTeam {
  readonly config: RunConfig;
  readonly module: ToolsModule;
  readonly tools: ReadonlyMap<string, Tool>;
  readonly source: ExampleSource;
}

/** The agents to train: the given one, or all that this arm trains and that have a policy of their own. */
function agentsOf({ agents }: RunConfig, only: string | undefined): string[] {
  const names = Object.keys(agents);
  const isTrained = (name: string) => agents[name]?.trained === true && ownsPolicy(agents, name);
  const chosen = only === undefined ? names.filter(isTrained) : [only];
  if (chosen.length === 0) {
    throw new MgrpoError(
      "config-invalid",
      "no agent of this team is trained: name one with --agent, or set agents.<name>.trained to true",
    );
  }
  for (const name of chosen) {
    const agent = agents[name];
    if (!agent) {
      throw new MgrpoError("config-invalid", `--agent ${name}: the team's agents are ${names.join(", ")}`, {
        unknownNames: [{ unknown: name, known: names }],
      });
    }
    const owner = ownerOf(agents, name);
    if (owner !== name) {
      throw new MgrpoError(
        "config-invalid",
        `--agent ${name}: it has the policy of '${owner}', which is trained on the demonstrations of all agents that share it: give --agent ${owner}`,
      );
    }
    if (LORA_POLICIES.includes(agent.policy) || agent.policy.startsWith("recipe:")) continue;
    throw new MgrpoError(
      "config-invalid",
      `agents.${name}.policy: sft cannot train with '${agent.policy}': it trains on this machine, with one of ${LORA_POLICIES.join(", ")}`,
    );
  }
  return chosen;
}

/** Reads and checks all that training an agent needs, its engine included: the agents before it may train for hours. */
async function prepare(team: SftTeam, agent: string, options: SftOptions): Promise<AgentTraining> {
  const { config, module } = team;
  const settings = policySettings(config.agents, agent);
  const { seed } = config;
  const base = await readPolicyBase(config, agent, (message) => console.error(message));
  const engine = openEngine(settings.policy, module.policies);
  const ofEngine = engineOptions(settings, config.limits);
  await engine.computesOn?.(ofEngine);
  await engine.check?.(base, ofEngine);
  refuseUntrainable(agent, settings, base);
  const examples = readExamples(team, agent, base, options);
  return {
    agent,
    seed,
    base,
    policy: settings.policy,
    engine,
    options: ofEngine,
    examples,
    plan: planOf(examples, base.has(ADAPTER_CONFIG_FILE), options),
    batchTokens: options.batchTokens,
    folder: join(options.to, agent),
    stateFolder: stateOf(options.to, agent),
  };
}

/** The examples of every agent that shares the owner's policy, each in its agent's own layout. */
function readExamples(team: SftTeam, owner: string, base: CheckpointFiles, { heldOut, fromRun }: SftOptions): Split {
  const sharing = agentsOfPolicy(team.config.agents, owner);
  const examples = sharing.flatMap((agent) => examplesOf(team, agent, base));
  // A run answers a question several times, often almost in the same words, so all answers to one prompt are on the same side.
  const parts = split(examples, heldOut, MAX_HELD_OUT, fromRun === undefined ? "tokens" : "prompt");
  if (parts.training.length > 0) return parts;
  throw new MgrpoError(
    "demonstrations-invalid",
    `all ${examples.length} demonstrations of agent '${owner}' are held out: give more, or lower --held-out`,
  );
}

function examplesOf({ config, source, tools }: SftTeam, agent: string, base: CheckpointFiles): Example[] {
  const settings = config.agents[agent] as AgentConfig;
  const { thinking, toolPrompt, limits } = settings;
  const tokenizer = openTokenizer(base);
  const layout = openAgentLayout(agent, settings, tokenizer, tools);
  const show = responsesWithin(limits, tokenizer);
  const ofApp = openAppLayout(tokenizer, { agent, thinking, toolPrompt }, show);
  return source({ agent, config: settings, toolbox: layout.toolbox }, tokenizerSha256(base)).map((input) => {
    const example = layOut(input, (demonstration) => exampleOf(demonstration, layout, tokenizer, show), ofApp);
    refuseEarlyEnd(example, tokenizer, input.where);
    refuseTooLong(example, agent, limits, input.where);
    return example;
  });
}

function layOut(
  input: ExampleInput,
  ofAgent: (demonstration: Demonstration) => Example,
  ofApp: ReturnType<typeof openAppLayout>,
): Example {
  if ("example" in input) return input.example;
  return "line" in input ? ofApp(input.line) : ofAgent(input.demonstration);
}

function tokenizerSha256(base: CheckpointFiles): string {
  const file = base.get("tokenizer.json");
  return file ? sha256(wholeFile(file)) : "";
}

function planOf({ training }: Split, isAdapter: boolean, options: SftOptions): TrainingPlan {
  return {
    tokens: options.tokens ?? Math.ceil((options.epochs ?? 1) * allTokens(training)),
    learningRate: options.learningRate ?? (isAdapter ? LEARNING_RATE.adapter : LEARNING_RATE.allWeights),
    warmUp: WARM_UP_SHARE,
    evaluateEvery: options.evaluateEvery,
    patience: options.patience,
  };
}
