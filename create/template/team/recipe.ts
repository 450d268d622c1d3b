/**
 * @file The team and its training. A planner answers and delegates; a searcher looks things up. `mgrpo train team` makes the two base
 * models from demonstrations.ts if they do not exist yet, then trains them.
 */
import { join } from "node:path";
import { callOpening, smallModel } from "mgrpo/base-model";
import type { Recipe } from "mgrpo/recipe";
import { plannerDemonstrations, searcherDemonstrations } from "./demonstrations.ts";
import { questionSet } from "./questions.ts";

const MODELS = join(import.meta.dirname, "models");

export const recipe: Recipe = {
  name: "team",
  config: {
    steps: 24,
    questionsPerStep: 16,
    rolloutsPerQuestion: 8,
    agents: {
      main: {
        // The folder of any Qwen3, Qwen2.5, Llama 3 or Mistral model will do, such as /models/Qwen3-0.6B.
        model: join(MODELS, "main"),
        delegates: ["searcher"],
        limits: { turns: 4, turnTokens: 24, contextTokens: 160, calls: 1, responseCharacters: 100 },
        optimizer: { learningRate: 2e-3, schedule: "linear" },
        engine: { threads: 1, slots: 64, microBatchTokens: 4096 },
      },
      searcher: {
        model: join(MODELS, "searcher"),
        tools: ["lookup"],
        limits: { turns: 3, turnTokens: 24, contextTokens: 160, calls: 1, responseCharacters: 100 },
        optimizer: { learningRate: 2e-3, schedule: "linear" },
        engine: { threads: 1, slots: 64, microBatchTokens: 4096 },
      },
    },
    // A question needs at most two delegations, so d (eq 11) is 2.
    algorithm: { alignment: { d: 2 } },
    evaluation: { every: 8, suites: [{ name: "held-out" }] },
  },
  questions: questionSet,
  // Your own questions (`mgrpo ask`) are all about village 7: the tools need to know which village.
  ask: (prompt) => ({ id: "asked", kind: "asked", level: 1, prompt, answer: "", facts: { village: 7 } }),
  baseModels: [
    smallModel({
      agent: "main",
      folder: join(MODELS, "main"),
      demonstrations: plannerDemonstrations,
      openings: [callOpening("delegate", "task", { agent: "searcher" })],
      tokens: 300_000,
    }),
    smallModel({
      agent: "searcher",
      folder: join(MODELS, "searcher"),
      demonstrations: searcherDemonstrations,
      openings: [callOpening("lookup", "name")],
      tokens: 800_000,
    }),
  ],
};
