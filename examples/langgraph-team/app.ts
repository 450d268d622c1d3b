/** @file An app on LangGraph: a planner and a searcher as ReAct agents, each with its own model. It knows nothing of training. */
import type { BaseMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import type { ChatOpenAI } from "@langchain/openai";
import * as z from "zod";
import { type Sources, taggedAnswer } from "../atlas-app/sources.ts";

/** Maximum number of steps: a model call is one, the execution of its tool calls another. */
const SEARCHER_STEPS = 9;
const PLANNER_STEPS = 11;

/** The team's answer; undefined if it gave none. */
export async function answerQuestion(
  question: string,
  models: { readonly planner: ChatOpenAI; readonly searcher: ChatOpenAI },
  sources: Sources,
  signal: AbortSignal,
): Promise<string | undefined> {
  const searcher = createReactAgent({
    llm: models.searcher,
    tools: [
      tool(({ query }: { query: string }) => sources.search(query), {
        name: "search",
        description: "Returns the titles of the three best pages. Several terms are separated by commas.",
        schema: z.object({ query: z.string() }),
      }),
      tool(({ title }: { title: string }) => sources.visit(title), {
        name: "visit",
        description: "Opens the page of that title.",
        schema: z.object({ title: z.string() }),
      }),
    ],
  });
  const delegate = tool(
    async ({ task }) => {
      const { messages } = await searcher.invoke(
        { messages: [asUser(task)] },
        { recursionLimit: SEARCHER_STEPS, signal },
      );
      return taggedAnswer(lastText(messages)) ?? "no report";
    },
    {
      name: "delegate",
      description: "Hands a subtask to a sub-agent and returns its report.",
      schema: z.object({ agent: z.literal("searcher"), task: z.string() }),
    },
  );
  const calculate = tool(({ expression }) => sources.calculate(expression), {
    name: "calculate",
    description: "Evaluates an arithmetic expression.",
    schema: z.object({ expression: z.string() }),
  });
  const planner = createReactAgent({ llm: models.planner, tools: [delegate, calculate] });
  const { messages } = await planner.invoke(
    { messages: [asUser(question)] },
    { recursionLimit: PLANNER_STEPS, signal },
  );
  return taggedAnswer(lastText(messages));
}

const asUser = (content: string) => ({ role: "user", content });

const lastText = (messages: readonly BaseMessage[]): string => messages.at(-1)?.text ?? "";
