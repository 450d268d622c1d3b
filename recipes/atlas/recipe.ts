/** @file The default recipe: questions about the countries of the world, for a planner and its searcher. See README.md. */
import { join } from "node:path";
import type { Arm, RunConfigInput } from "../../core/contracts/config.ts";
import type { Recipe } from "../../core/recipe.ts";
import { baseModels, CONTEXT_TOKENS, MODELS } from "./bases.ts";
import { caseStudies } from "./case-studies.ts";
import { firstDemonstrations } from "./demonstrations/demonstrations.ts";
import { DEVELOPMENT_QUESTIONS, questionSet, TEST_QUESTIONS, userQuestion, worldNote } from "./questions/questions.ts";

export const recipe: Recipe = {
  name: "atlas",
  config,
  questions: questionSet,
  ask: userQuestion,
  note: worldNote,
  caseStudies,
  baseModels,
  demonstrations: (agent, arm, seed) => firstDemonstrations(arm === "single-agent" ? "single" : agent, seed),
};

const optimizer = { learningRate: 8e-4, schedule: "linear" } as const;
const engine = { threads: 1, slots: 64, microBatchTokens: 4096 };

function config(arm: Arm): ReturnType<Recipe["config"]> {
  return { ...common, agents: agentsOf(arm) };
}

function agentsOf(arm: Arm): RunConfigInput["agents"] {
  if (arm === "single-agent") return singleAgent();
  return arm === "shared-policy" ? oneModel(team()) : team();
}

function team() {
  return {
    main: {
      model: join(MODELS, "main"),
      tools: ["calculate"],
      delegates: ["searcher"],
      limits: { turns: 5, turnTokens: 48, contextTokens: 256, calls: 2, responseCharacters: 200 },
      optimizer,
      engine,
    },
    searcher: {
      model: join(MODELS, "searcher"),
      tools: ["search", "visit"],
      limits: { turns: 4, turnTokens: 40, contextTokens: 320, calls: 1, responseCharacters: 800 },
      optimizer,
      engine,
    },
  } satisfies RunConfigInput["agents"];
}

/** The team with one base model, which tells its two roles apart by the system message. */
function oneModel({ main, searcher }: ReturnType<typeof team>): RunConfigInput["agents"] {
  const model = join(MODELS, "shared");
  return { main: { ...main, model, system: "Plan." }, searcher: { ...searcher, model, system: "Search." } };
}

function singleAgent(): RunConfigInput["agents"] {
  return {
    main: {
      model: join(MODELS, "single"),
      tools: ["search", "visit", "calculate"],
      limits: { turns: 8, turnTokens: 40, contextTokens: CONTEXT_TOKENS, calls: 1, responseCharacters: 800 },
      optimizer,
      engine,
    },
  };
}

const TEST = { skip: DEVELOPMENT_QUESTIONS, questions: TEST_QUESTIONS, when: "ends" } as const;

const common = {
  steps: 100,
  questionsPerStep: 16,
  rolloutsPerQuestion: 8,
  // The longest chain is three look-ups, and sometimes one is repeated: P(d_k <= 4) is above 0.99 (eq 11).
  algorithm: { alignment: { d: 4 } },
  // In steps, so that a short trial run asks only what the base models can partly answer. `mgrpo compare` converts steps to shares of a run.
  curriculum: [
    { fromStep: 0, levels: [1, 2] },
    { fromStep: 20, levels: [1, 2, 3] },
  ],
  evaluation: {
    every: 15,
    suites: [
      { name: "test", temperature: 1, ...TEST },
      { name: "development", temperature: 1, questions: DEVELOPMENT_QUESTIONS },
      { name: "test-greedy", temperature: 0, ...TEST },
      { name: "closed-book", temperature: 1, closedBook: true, ...TEST },
    ],
  },
} satisfies Partial<RunConfigInput>;
