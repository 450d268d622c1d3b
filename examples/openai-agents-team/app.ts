/** @file An app on the OpenAI Agents SDK: a planner that uses a searcher as a tool, each with its own model. It knows nothing of training. */
import { Agent, type Model, Runner, tool } from "@openai/agents";
import * as z from "zod";
import { type Sources, taggedAnswer } from "../atlas-app/sources.ts";

/** The team's answer; undefined if it gave none. */
export async function answerQuestion(
  question: string,
  models: { readonly planner: Model; readonly searcher: Model },
  sources: Sources,
  signal: AbortSignal,
): Promise<string | undefined> {
  const runner = new Runner({ tracingDisabled: true });
  const searcher = new Agent({
    name: "searcher",
    model: models.searcher,
    tools: [
      tool({
        name: "search",
        description: "Returns the titles of the three best pages. Several terms are separated by commas.",
        parameters: z.object({ query: z.string() }),
        execute: async ({ query }) => sources.search(query),
      }),
      tool({
        name: "visit",
        description: "Opens the page of that title.",
        parameters: z.object({ title: z.string() }),
        execute: async ({ title }) => sources.visit(title),
      }),
    ],
  });
  const planner = new Agent({
    name: "planner",
    model: models.planner,
    tools: [
      tool({
        name: "delegate",
        description: "Hands a subtask to a sub-agent and returns its report.",
        parameters: z.object({ agent: z.literal("searcher"), task: z.string() }),
        execute: async ({ task }) => {
          const { finalOutput = "" } = await runner.run(searcher, task, { maxTurns: 4, signal });
          return taggedAnswer(finalOutput) ?? "no report";
        },
      }),
      tool({
        name: "calculate",
        description: "Evaluates an arithmetic expression.",
        parameters: z.object({ expression: z.string() }),
        execute: async ({ expression }) => sources.calculate(expression),
      }),
    ],
  });
  const { finalOutput = "" } = await runner.run(planner, question, { maxTurns: 5, signal });
  return taggedAnswer(finalOutput);
}
