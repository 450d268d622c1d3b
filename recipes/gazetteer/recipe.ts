/** @file Questions in English about the countries of the world, for two small language models. See README.md. */
import type { Arm, RunConfigInput } from "../../core/contracts/config.ts";
import type { Recipe } from "../../core/recipe.ts";
import { userQuestion, worldNote } from "../atlas/questions/questions.ts";
import { demonstrations } from "./demonstrations/demonstrations.ts";
import { DEVELOPMENT_QUESTIONS, questionSet, TEST_QUESTIONS } from "./questions/questions.ts";
import { PLANNER_SYSTEM, SEARCHER_SYSTEM, SINGLE_SYSTEM } from "./system.ts";

export const recipe: Recipe = {
  name: "gazetteer",
  config,
  questions: questionSet,
  ask: userQuestion,
  note: worldNote,
  demonstrations,
};

const model = "hf:HuggingFaceTB/SmolLM2-135M-Instruct";
const lora = { rank: 16, alpha: 32 };
const optimizer = { learningRate: 3e-4, schedule: "linear" } as const;
const engine = { threads: 2, slots: 64, microBatchTokens: 4096 };
// The system messages describe the tools (system.ts).
const trained = { model, lora, toolPrompt: "none", optimizer, engine } as const;

function config(arm: Arm): ReturnType<Recipe["config"]> {
  return { ...common, agents: arm === "single-agent" ? singleAgent() : team() };
}

function team(): RunConfigInput["agents"] {
  return {
    main: {
      ...trained,
      system: PLANNER_SYSTEM,
      tools: ["calculate"],
      delegates: ["searcher"],
      limits: { turns: 4, turnTokens: 64, contextTokens: 384, calls: 1, responseCharacters: 200 },
    },
    searcher: {
      ...trained,
      system: SEARCHER_SYSTEM,
      tools: ["search", "visit"],
      limits: { turns: 5, turnTokens: 64, contextTokens: 448, calls: 1, responseCharacters: 500 },
    },
  };
}

/** One conversation holds all look-ups of a question, so its context is larger. */
function singleAgent(): RunConfigInput["agents"] {
  return {
    main: {
      ...trained,
      system: SINGLE_SYSTEM,
      tools: ["search", "visit", "calculate"],
      limits: { turns: 8, turnTokens: 64, contextTokens: 768, calls: 1, responseCharacters: 500 },
    },
  };
}

const TEST = { skip: DEVELOPMENT_QUESTIONS, questions: TEST_QUESTIONS, when: "ends" } as const;

const common = {
  steps: 32,
  questionsPerStep: 8,
  rolloutsPerQuestion: 8,
  temperature: 1,
  algorithm: {
    // Format alone earns nothing: a team that is rewarded for it learns to answer at once, and wrongly.
    mainReward: { format: 0, correct: 1 },
    subReward: { format: 0, correct: 0.3, expert: 0.7 },
    alignment: { d: 2 },
  },
  // All rollouts of a step share two cores, so each of them may take as long as the whole step.
  limits: { rolloutSeconds: 1200, invocationSeconds: 600 },
  evaluation: {
    every: 16,
    suites: [
      { name: "test", temperature: 1, ...TEST },
      { name: "development", temperature: 1, questions: DEVELOPMENT_QUESTIONS },
      { name: "closed-book", temperature: 1, closedBook: true, ...TEST },
    ],
  },
} satisfies Partial<RunConfigInput>;
