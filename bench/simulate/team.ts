/**
 * @file The simulated team: a main agent and its sub-agents, with atlas's tokenizers. Turns are scripted and take virtual time. Questions, the
 * tool, rewards, log-probs, gradients and weights are placeholders. The workers, functions and store adapters around them are real.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import type { RunConfig, RunConfigInput } from "../../core/contracts/config.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { StartRun } from "../../core/contracts/messages.ts";
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { ObjectStore, PolicyEngine, Rewards, Sampler, Tool, Trainer } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { OPTIMIZER_FILE } from "../../engine/checkpoint/shards.ts";
import { sha256 } from "../../engine/hash.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { WEIGHTS } from "../../gpu-workers/checkpoints.ts";
import { CALL_PROBABILITIES, CORRECT_PROBABILITY, MALFORMED_PROBABILITY, SECONDS, SLOTS } from "./assumptions.ts";
import { jitter, pause } from "./cloud/store.ts";

const MODELS = join(import.meta.dirname, "../../recipes/atlas/models");
const TOKENIZER_FILES = ["tokenizer.json", "tokenizer_config.json"];
const QUESTIONS = 1000;
const ANSWER = "Paris";
const LOG_PROB = -0.5;

const subAgents = (agents: number) => Array.from({ length: agents - 1 }, (_, i) => `searcher-${i + 1}`);

/** The team's config, as a recipe would recommend it, with the polling and heartbeats of docs/deploy.md. */
export function teamConfig(agents: number): Omit<RunConfigInput, "run" | "recipe" | "arm"> {
  const limits = { turnTokens: 200, contextTokens: 4000 };
  const engine = { slots: SLOTS };
  const subs = subAgents(agents).map(
    (name) => [name, { model: "searcher", tools: ["search"], limits, engine }] as const,
  );
  return {
    steps: 1,
    agents: { main: { model: "main", delegates: subAgents(agents), limits, engine }, ...Object.fromEntries(subs) },
    liveness: { pollSeconds: 1, heartbeatSeconds: 5, leaseSeconds: 60 },
  };
}

const questions: Question[] = Array.from({ length: QUESTIONS }, (_, i) => ({
  id: `train-${i}`,
  kind: "hop1",
  level: 1,
  prompt: `What is the capital of the country that borders Belgium and has the currency euro, for the ${i}th time?`,
  answer: ANSWER,
  facts: null,
}));

export const simulatedRewards: Rewards = {
  correct: (question, { answer }) => (answer === question.answer ? 1 : 0),
  expert: (question, _agent, { answer }) => (answer === question.answer ? 1 : 0.2),
};

const search: Tool<{ query: string }> = {
  name: "search",
  description: "Searches the atlas; returns the titles of the three best pages. Several terms are separated by commas.",
  parameters: z.strictObject({ query: z.string() }),
  run: async () =>
    "France: capital Paris, currency euro, languages French, area 551695, borders Belgium, Germany, Spain",
};
export const simulatedTools: ReadonlyMap<string, Tool> = new Map<string, Tool>([["search", search]]);

/** Uploads questions and base files, as the command line does. Returns the request for start-run. */
export async function prepareTeam(objects: ObjectStore, config: RunConfig): Promise<StartRun> {
  const set = new TextEncoder().encode(canonicalJson({ train: questions, heldOut: [] }));
  await objects.commit(objectKeys.questions(config.run), set);
  const bases: StartRun["bases"] = {};
  for (const [agent, { model }] of Object.entries(config.agents)) {
    const files = TOKENIZER_FILES.map((name) => [name, readFileSync(join(MODELS, model, name))] as const);
    const parts: Record<string, { sha256: string; bytes: number }> = {};
    for (const [name, bytes] of [...files, [WEIGHTS, weightsOf(agent, 0)] as const]) {
      parts[name] = { sha256: sha256(bytes), bytes: bytes.length };
      await objects.commit(objectKeys.part(config.run, sha256(bytes)), bytes);
    }
    bases[agent] = parts;
  }
  return { config, questionsSha256: sha256(set), bases };
}

/** Every agent's policy. The first optimizer step of each version awaits `pace`, so that training takes its share of virtual time. */
export function openTeamEngine({ agents, main }: RunConfig, pace: () => Promise<void>): PolicyEngine {
  const subs = Object.keys(agents).filter((name) => name !== main);
  let saved = 0;
  return {
    async openSampler(files): Promise<Sampler> {
      const tokenizer = openTokenizer(files);
      const cache = new Map<string, number[]>();
      const tokensOf = (text: string) => {
        const tokens = cache.get(text) ?? [...tokenizer.encodeTemplate(text), tokenizer.endOfTurn];
        cache.set(text, tokens);
        return tokens;
      };
      return {
        async sample({ stream: name }) {
          const random = stream("script", ...name);
          await pause(jitter(SECONDS.turn, random));
          const tokens = tokensOf(scriptedTurn(name, subs, random.uniform(), random.integer));
          return { tokens, logProbs: tokens.map(() => LOG_PROB), stop: "stop" };
        },
        release() {},
        async close() {},
      };
    },
    async openTrainer(): Promise<Trainer> {
      const logProbsOf = (tokens: readonly number[]) => new Float32Array(tokens.length).fill(LOG_PROB);
      let isPaced = false;
      return {
        logProbs: async (sequences) => sequences.map(logProbsOf),
        forwardBackward: async (batch) => ({ loss: 0, logProbs: batch.map(({ tokens }) => logProbsOf(tokens)) }),
        async optimizerStep() {
          if (!isPaced) await pace();
          isPaced = true;
          return { gradientNorm: 1 };
        },
        async save() {
          isPaced = false;
          saved += 1;
          return new Map([
            [WEIGHTS, weightsOf("weights", saved)],
            [OPTIMIZER_FILE, weightsOf("optimizer", saved)],
          ]);
        },
        async load() {},
        async close() {},
      };
    },
  };
}

/**
 * `name` names the turn's random stream. It ends in the agent, the index of its call ("asked" for the main agent), "turn" and the turn's
 * index. `draw` is uniform in [0, 1).
 */
function scriptedTurn(
  name: readonly (string | number)[],
  subs: readonly string[],
  draw: number,
  integer: (n: number) => number,
) {
  const turn = name.at(-1);
  const isMain = name.at(-3) === "asked";
  if (draw < MALFORMED_PROBABILITY) return "<tool_call>nonsense</tool_call>";
  const share = (draw - MALFORMED_PROBABILITY) / (1 - MALFORMED_PROBABILITY);
  const calls = isMain
    ? CALL_PROBABILITIES.findIndex((_, i) => share < CALL_PROBABILITIES.slice(0, i + 1).reduce((sum, p) => sum + p, 0))
    : 1;
  if (turn !== 0 || calls < 1) return `<answer>${share < CORRECT_PROBABILITY ? ANSWER : "Brussels"}</answer>`;
  const call = (tool: string, args: object) =>
    `<tool_call>\n${JSON.stringify({ name: tool, arguments: args })}\n</tool_call>`;
  if (!isMain) return call("search", { query: "country, Belgium, euro" });
  const task = "country with borders Belgium, currency euro";
  return Array.from({ length: calls }, () => call("delegate", { agent: subs[integer(subs.length)], task })).join("\n");
}

/** A placeholder for a file of weights or optimizer state: bytes that are unique within the run. */
function weightsOf(what: string, version: number): Uint8Array {
  return new TextEncoder().encode(`${what} ${version}`);
}
