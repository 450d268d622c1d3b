/** @file All that connects the app to training: each agent gets the model that is trained, and the app's answer is returned. */
import { GraphRecursionError } from "@langchain/langgraph";
import { ChatOpenAI } from "@langchain/openai";
import type { AgentEndpoint, Rollout } from "../../core/recipe.ts";
import { sourcesOf, teamOf } from "../atlas-app/sources.ts";
import { answerQuestion } from "./app.ts";

export const rollout: Rollout = async ({ question, agents, signal }) => {
  const { planner, searcher } = teamOf(agents);
  const models = { planner: modelOf(planner), searcher: modelOf(searcher) };
  try {
    const answer = await answerQuestion(question.prompt, models, sourcesOf(question), signal);
    return answer === undefined ? { failed: "it ended without an answer" } : { answer };
  } catch (error) {
    if (error instanceof GraphRecursionError) return { failed: error.message };
    throw error;
  }
};

const modelOf = ({ baseURL, apiKey, model }: AgentEndpoint) =>
  new ChatOpenAI({ model, apiKey, configuration: { baseURL } });
