/** @file Questions that take between 0 and 20 invocations of the searcher, to compare alignment methods. See README.md. */
import { join } from "node:path";
import type { Recipe } from "../../core/recipe.ts";
import { smallModel } from "../small-models/base-model.ts";
import { callOpening } from "../small-models/tokenizer.ts";
import { caseStudies } from "./case-studies.ts";
import { CALLS_PER_TURN, plannerDemonstrations, searcherDemonstrations } from "./demonstrations.ts";
import { DEVELOPMENT_QUESTIONS, questionSet } from "./questions.ts";

const MODELS = join(import.meta.dirname, "models");
const CONTEXT_TOKENS = 1024;

const optimizer = { learningRate: 1e-3, schedule: "linear" } as const;
const engine = { threads: 1, slots: 64, microBatchTokens: 4096 };

export const recipe: Recipe = {
  name: "tally",
  config: () => ({
    steps: 60,
    questionsPerStep: 16,
    rolloutsPerQuestion: 8,
    agents: {
      main: {
        model: join(MODELS, "main"),
        tools: ["calculate"],
        delegates: ["searcher"],
        limits: {
          turns: 8,
          turnTokens: 80,
          contextTokens: CONTEXT_TOKENS,
          calls: CALLS_PER_TURN,
          responseCharacters: 120,
        },
        optimizer,
        engine,
      },
      searcher: {
        model: join(MODELS, "searcher"),
        tools: ["lookup", "survey"],
        limits: { turns: 3, turnTokens: 48, contextTokens: 160, calls: 1, responseCharacters: 120 },
        optimizer,
        engine,
      },
    },
    // The paper's d. Rollouts make 0 to 20 invocations, so alignment duplicates some trajectories and drops others.
    algorithm: { alignment: { d: 8 } },
    evaluation: {
      every: 15,
      suites: [
        { name: "test", temperature: 1, skip: DEVELOPMENT_QUESTIONS, when: "ends" },
        { name: "development", temperature: 1, questions: DEVELOPMENT_QUESTIONS },
      ],
    },
  }),
  questions: questionSet,
  caseStudies,
  baseModels: [
    smallModel({
      agent: "main",
      folder: join(MODELS, "main"),
      demonstrations: plannerDemonstrations,
      openings: [callOpening("delegate", "task", { agent: "searcher" }), callOpening("calculate", "expression")],
      tokens: 4_000_000,
      shape: { layers: 3, width: 128, heads: 4, keyValueHeads: 2, ffn: 256 },
      contextTokens: CONTEXT_TOKENS,
    }),
    smallModel({
      agent: "searcher",
      folder: join(MODELS, "searcher"),
      demonstrations: searcherDemonstrations,
      openings: [callOpening("lookup", "name"), callOpening("survey", "house")],
      tokens: 4_000_000,
      shape: { layers: 3, width: 96, heads: 4, keyValueHeads: 2, ffn: 256 },
    }),
  ],
};
