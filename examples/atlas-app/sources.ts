/**
 * @file What the example apps in TypeScript share: their sources (the pages of the question's world, and a calculator), the
 * endpoints of their agents, and how an answer is read from a message.
 */
import { calculateText } from "../../adapters/tools/calculate.ts";
import type { AgentEndpoint, RolloutContext } from "../../core/recipe.ts";
import { factsOf } from "../../recipes/atlas/questions/facts.ts";
import { pageText, searchTitles } from "../../recipes/atlas/tools.ts";

export interface Sources {
  search(query: string): string;
  visit(title: string): string;
  calculate(expression: string): string;
}

export function sourcesOf(question: RolloutContext["question"]): Sources {
  const { world } = factsOf(question);
  return {
    search: (query) => searchTitles(world, query),
    visit: (title) => pageText(world, title),
    calculate: calculateText,
  };
}

/** The endpoints of atlas's two agents. */
export function teamOf(agents: RolloutContext["agents"]): { planner: AgentEndpoint; searcher: AgentEndpoint } {
  const { main: planner, searcher } = agents;
  if (!planner || !searcher) throw new Error("this app needs the agents main and searcher");
  return { planner, searcher };
}

/** The text in the only pair of answer tags. Undefined if there is no such text, or there are tool tags or special tokens. */
export function taggedAnswer(text: string): string | undefined {
  const isWhole = (text.match(/<\/?answer>/g) ?? []).join("") === "<answer></answer>";
  const [, answer] = text.split(/<\/?answer>/);
  return isWhole && !/<\/?tool_|<\|/.test(text) ? answer?.trim() || undefined : undefined;
}
