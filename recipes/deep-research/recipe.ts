/**
 * @file The paper's setting (arXiv 2511.13288): a planner and a searcher that do research. By default they are atlas's shipped models,
 * in its world. Questions, tools and the judge are settings; an agent with a model of its own gets the defaults for an LLM. See README.md.
 */
import { judgeCriteria } from "../../adapters/judges/criteria.ts";
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import { READ_ATTACHMENT } from "../../core/contracts/attachment.ts";
import type { Arm, RunConfigInput } from "../../core/contracts/config.ts";
import type { LanguageModelSpecInput } from "../../core/contracts/language-model.ts";
import { LORA_POLICIES } from "../../core/contracts/lora.ts";
import type { Recipe } from "../../core/recipe.ts";
import type { Chosen } from "../../core/training/resolve-config.ts";
import { DEVELOPMENT_QUESTIONS } from "../atlas/questions/questions.ts";
import { recipe as atlas } from "../atlas/recipe.ts";
import { systemOf } from "./system.ts";

export const recipe: Recipe = { ...atlas, name: "deep-research", config, baseModels: [] };

type AgentInput = RunConfigInput["agents"][string];

/** The paper's K, and d as eq 11 requires: more than d delegations are rare. */
const K = 8;
const D = 8;
/** Stage 1 asks easy questions and mostly teaches the format; stage 2 begins at this share of the run and asks all questions. */
const STAGE_2 = 0.4;
const LEVELS = [1, 2, 3, 4, 5, 6, 7, 8, 9];
/** Of atlas's 336 test questions, equally many of each kind. Asking them three times takes about as long as asking all of them once. */
const HELD_OUT = 108;

function config(arm: Arm, chosen: Chosen): ReturnType<Recipe["config"]> {
  const { agents: shipped } = atlas.config(arm, chosen);
  const llms = Object.keys(shipped).filter((name) => isLlm(name, chosen));
  const agents = Object.entries(shipped).map(([name, agent]) => [
    name,
    { ...(llms.includes(name) ? llm(name, agent, chosen) : agent), tools: toolsOf(name, agent, chosen) },
  ]);
  return {
    steps: 100,
    questionsPerStep: 16,
    rolloutsPerQuestion: K,
    agents: Object.fromEntries(agents),
    algorithm: {
      mainReward: { format: 0.1, correct: 0.9 },
      subReward: { format: 0.1, correct: 0.4, expert: 0.5 },
      alignment: { d: D },
    },
    curriculum: [
      { from: 0, levels: [1] },
      { from: STAGE_2, levels: LEVELS },
    ],
    evaluation: { every: 25, suites: suitesOf(chosen) },
    ...(llms.length > 0 && { limits: { rolloutSeconds: 3600, invocationSeconds: 1200 } }),
    ...(chosen("judge") !== undefined && {
      judge: { model: chosen("judge.model") as LanguageModelSpecInput, criteria: judgeCriteria() },
    }),
  };
}

/** The policy of an agent; where it shares another's, that of the other. */
function policyOf(name: string, chosen: Chosen): string {
  const policyAt = (agent: string) => String(chosen(`agents.${agent}.policy`) ?? "compiled");
  const [, owner] = /^of:(.+)$/.exec(policyAt(name)) ?? [];
  return policyAt(owner ?? name);
}

const isServer = (policy: string): boolean => /^(tinker|openai|bedrock)(:|$)/.test(policy);

function isLlm(name: string, chosen: Chosen): boolean {
  return chosen(`agents.${name}.model`) !== undefined || isServer(policyOf(name, chosen));
}

/**
 * An LLM needs a system message, room for thoughts and pages, and a small learning rate. A local run trains an adapter, within
 * a workstation's memory. On a server, memory and gradient clipping are up to the server; SkyRL does not clip.
 */
function llm(name: string, shipped: AgentInput, chosen: Chosen): AgentInput {
  const policy = policyOf(name, chosen);
  const isTinker = policy.startsWith("tinker:");
  const isApi = isServer(policy) && !isTinker;
  const contextTokens = isServer(policy) ? 32_768 : 4096;
  const limits: AgentConfig["limits"] = {
    turns: 16,
    turnTokens: contextTokens / 4,
    contextTokens,
    calls: 4,
    responseCharacters: isApi ? contextTokens : 2 * contextTokens,
    ...(!isApi && { responseTokens: contextTokens / 4 }),
  };
  return {
    ...shipped,
    system: systemOf(shipped),
    limits,
    lora: LORA_POLICIES.includes(policy) ? {} : null,
    optimizer: { learningRate: 4e-5, schedule: "linear", maxGradientNorm: isTinker ? null : 1 },
    engine: { slots: isServer(policy) ? 32 : 8, microBatchTokens: contextTokens },
  };
}

/** Extra tools of the agents that calculate: `reason` where a model is set for it; for an LLM, the files of GAIA's questions. */
function toolsOf(name: string, { tools = [] }: AgentInput, chosen: Chosen): readonly string[] {
  if (!tools.includes("calculate")) return tools;
  return [
    ...(chosen("tools.reason") === undefined ? [] : ["reason"]),
    ...(isLlm(name, chosen) && asksGaia(chosen("evaluation.suites")) ? [READ_ATTACHMENT] : []),
    ...tools,
  ];
}

/** `suites` as the user set them: a list, or single entries by index. */
const asksGaia = (suites: unknown): boolean =>
  Object.values(suites ?? {}).some((suite: { benchmark?: unknown } | null) => suite?.benchmark === "gaia");

function suitesOf(chosen: Chosen): NonNullable<RunConfigInput["evaluation"]>["suites"] {
  if (chosen("questions") === undefined) {
    return [{ name: "held-out", runs: 3, skip: DEVELOPMENT_QUESTIONS, questions: HELD_OUT }];
  }
  return chosen("questions.heldOut") === undefined ? [] : [{ name: "held-out", runs: 3 }];
}
