/**
 * @file The searcher of tally alone: its tasks are the questions, each about a person or a house. Trained on one kind, does it improve at the
 * other? See ../README.md.
 */
import { join } from "node:path";
import type { Recipe } from "../../../core/recipe.ts";
import { caseStudies } from "./case-studies.ts";
import { questionSet } from "./questions.ts";

export const recipe: Recipe = {
  name: "tally-tasks",
  config: () => ({
    steps: 40,
    questionsPerStep: 32,
    rolloutsPerQuestion: 8,
    agents: {
      main: {
        model: join(import.meta.dirname, "../models/searcher"),
        tools: ["lookup", "survey"],
        limits: { turns: 3, turnTokens: 48, contextTokens: 160, calls: 1, responseCharacters: 120 },
        optimizer: { learningRate: 1e-3, schedule: "linear" },
        engine: { threads: 1, slots: 64, microBatchTokens: 4096 },
      },
    },
    curriculum: [{ from: 0, levels: [1, 2] }],
    evaluation: { every: 20, suites: [{ name: "held-out", temperature: 1 }] },
  }),
  questions: questionSet,
  caseStudies,
};
