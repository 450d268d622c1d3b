/**
 * @file An ordinary app: a planner and a searcher on the AI SDK, each with its own model. It knows nothing of training. The planner
 * hands tasks to the searcher; the searcher searches and reads.
 */
import { generateText, type LanguageModel, stepCountIs, tool } from "ai";
import * as z from "zod";
import { answerIn, type Sources } from "../atlas-app/sources.ts";

export interface Team {
  readonly planner: LanguageModel;
  readonly searcher: LanguageModel;
}

/** The team's answer; undefined if it gave none. */
export async function answerQuestion(
  question: string,
  { planner, searcher }: Team,
  sources: Sources,
  abortSignal: AbortSignal,
): Promise<string | undefined> {
  const { text } = await generateText({
    model: planner,
    prompt: question,
    stopWhen: stepCountIs(5),
    abortSignal,
    tools: {
      delegate: tool({
        description: "Hands a subtask to a sub-agent and returns its report.",
        inputSchema: z.object({ agent: z.literal("searcher"), task: z.string() }),
        execute: async ({ task }) => (await research(task, searcher, sources, abortSignal)) ?? "no report",
      }),
      calculate: tool({
        description: "Evaluates an arithmetic expression.",
        inputSchema: z.object({ expression: z.string() }),
        execute: async ({ expression }) => sources.calculate(expression),
      }),
    },
  });
  return answerIn(text);
}

async function research(task: string, model: LanguageModel, sources: Sources, abortSignal: AbortSignal) {
  const { text } = await generateText({
    model,
    prompt: task,
    stopWhen: stepCountIs(4),
    abortSignal,
    tools: {
      search: tool({
        description: "Returns the titles of the three best pages. Several terms are separated by commas.",
        inputSchema: z.object({ query: z.string() }),
        execute: async ({ query }) => sources.search(query),
      }),
      visit: tool({
        description: "Opens the page of that title.",
        inputSchema: z.object({ title: z.string() }),
        execute: async ({ title }) => sources.visit(title),
      }),
    },
  });
  return answerIn(text);
}
