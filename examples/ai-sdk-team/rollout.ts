/** @file All that connects the app to training: each agent gets the model that is trained, and the app's answer is returned. */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { AgentEndpoint, Rollout } from "../../core/recipe.ts";
import { sourcesOf, teamOf } from "../atlas-app/sources.ts";
import { answerQuestion } from "./app.ts";

export const rollout: Rollout = async ({ question, agents, signal }) => {
  const { planner, searcher } = teamOf(agents);
  const team = { planner: modelOf(planner), searcher: modelOf(searcher) };
  const answer = await answerQuestion(question.prompt, team, sourcesOf(question), signal);
  return answer === undefined ? { failed: "it ended without an answer" } : { answer };
};

const modelOf = (agent: AgentEndpoint) => createOpenAICompatible(agent)(agent.model);
