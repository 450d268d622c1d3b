/** @file All that connects the app to training: each agent gets the model that is trained, and the app's answer is returned. */
import { MaxTurnsExceededError, OpenAIProvider } from "@openai/agents";
import type { AgentEndpoint, Rollout } from "../../core/recipe.ts";
import { sourcesOf, teamOf } from "../atlas-app/sources.ts";
import { answerQuestion } from "./app.ts";

export const rollout: Rollout = async ({ question, agents, signal }) => {
  const team = teamOf(agents);
  const [planner, searcher] = await Promise.all([modelOf(team.planner), modelOf(team.searcher)]);
  try {
    const answer = await answerQuestion(question.prompt, { planner, searcher }, sourcesOf(question), signal);
    return answer === undefined ? { failed: "it ended without an answer" } : { answer };
  } catch (error) {
    if (error instanceof MaxTurnsExceededError) return { failed: error.message };
    throw error;
  }
};

function modelOf({ baseURL, apiKey, model }: AgentEndpoint) {
  return new OpenAIProvider({ baseURL, apiKey, useResponses: false }).getModel(model);
}
