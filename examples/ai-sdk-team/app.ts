/**
 * @file An ordinary app: a planner and a searcher on the AI SDK, each with its own model. It knows nothing of training. The planner
 * hands tasks to the searcher; the searcher searches and reads.
 */
import { APICallError, generateText, type LanguageModel, stepCountIs, tool } from "ai";
import * as z from "zod";
import { type Sources, taggedAnswer } from "../atlas-app/sources.ts";

const PLANNER_STEPS = 5;
const REPORT_LENGTH = 200;

export interface TeamModels {
  readonly planner: LanguageModel;
  readonly searcher: LanguageModel;
}

/** The team's answer; undefined if it gave none. */
export async function answerQuestion(
  question: string,
  { planner, searcher }: TeamModels,
  sources: Sources,
  abortSignal: AbortSignal,
): Promise<string | undefined> {
  const { text, finishReason } = await generateText({
    model: planner,
    prompt: question,
    stopWhen: stepCountIs(PLANNER_STEPS),
    // Nobody would read the report of a task that the last step hands out.
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === PLANNER_STEPS - 1 ? "none" : "auto" }),
    abortSignal,
    tools: {
      delegate: tool({
        description: "Hands a subtask to a sub-agent and returns its report.",
        inputSchema: z.object({ agent: z.literal("searcher"), task: z.string() }),
        execute: async ({ task }) => short((await research(task, searcher, sources, abortSignal)) ?? "no report"),
      }),
      calculate: tool({
        description: "Evaluates an arithmetic expression.",
        inputSchema: z.object({ expression: z.string() }),
        execute: async ({ expression }) => sources.calculate(expression),
      }),
    },
  });
  return finishReason === "stop" ? taggedAnswer(text) : undefined;
}

const short = (report: string) => (report.length > REPORT_LENGTH ? `${report.slice(0, REPORT_LENGTH)} [cut]` : report);

/** Undefined: no report, perhaps because the conversation has outgrown the context of the searcher's model (status 400). */
async function research(task: string, model: LanguageModel, sources: Sources, abortSignal: AbortSignal) {
  const asked = generateText({
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
  const { text, finishReason } = await asked.catch((error: unknown) => {
    if (APICallError.isInstance(error) && error.statusCode === 400) return { text: "", finishReason: "length" };
    throw error;
  });
  return finishReason === "stop" ? taggedAnswer(text) : undefined;
}
