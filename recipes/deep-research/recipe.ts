/**
 * @file The paper's setting (arXiv 2511.13288): a planner and a searcher that do research. By default they are atlas's shipped models,
 * in its worlds. Questions, tools and the judge are settings; an agent with a model of its own gets the defaults for an LLM. See README.md.
 */
import { judgeCriteria } from "../../adapters/judges/criteria.ts";
import type { Arm, RunConfigInput } from "../../core/contracts/config.ts";
import type { LanguageModelSpecInput } from "../../core/contracts/language-model.ts";
import type { Recipe } from "../../core/recipe.ts";
import type { Chosen } from "../../core/training/resolve-config.ts";
import { DEVELOPMENT_QUESTIONS } from "../atlas/questions/questions.ts";
import { recipe as atlas } from "../atlas/recipe.ts";
import { agentsOf, isLlm, withArm } from "./agents.ts";

export const recipe: Recipe = { ...atlas, name: "deep-research", config, baseModels: [] };

/** The paper's K and d: few rollouts have more than d delegations (eq 11). */
const K = 8;
const D = 8;
/** Stage 1 asks easy questions and mostly teaches the format; stage 2 begins at this share of the run and asks those of all LEVELS. */
const STAGE_2 = 0.4;
const LEVELS = [1, 2, 3, 4, 5, 6, 7, 8, 9];
/** Of atlas's 336 test questions, equally many of each kind. Asking these three times takes about as long as asking all 336 once. */
const HELD_OUT_QUESTIONS = 108;

function config(arm: Arm, chosenByUser: Chosen): ReturnType<Recipe["config"]> {
  const chosen = withArm(arm, chosenByUser);
  const { agents: shipped } = atlas.config(arm, chosen);
  const hasLlm = Object.keys(shipped).some((name) => isLlm(name, chosen));
  return {
    steps: 100,
    questionsPerStep: 16,
    rolloutsPerQuestion: K,
    agents: agentsOf(shipped, chosen),
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
    ...(hasLlm && { limits: { rolloutSeconds: 3600, invocationSeconds: 1200 } }),
    ...(chosen("judge") !== undefined && {
      judge: { model: chosen("judge.model") as LanguageModelSpecInput, criteria: judgeCriteria() },
    }),
  };
}

function suitesOf(chosen: Chosen): NonNullable<RunConfigInput["evaluation"]>["suites"] {
  if (chosen("questions") === undefined) {
    return [{ name: "held-out", runs: 3, skip: DEVELOPMENT_QUESTIONS, questions: HELD_OUT_QUESTIONS }];
  }
  return chosen("questions.heldOut") === undefined ? [] : [{ name: "held-out", runs: 3 }];
}
