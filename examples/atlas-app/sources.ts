/** @file The sources of the example apps in TypeScript: the pages of the question's world, and a calculator. */
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

/** Atlas's agents, by their roles in the apps. */
export function teamOf(agents: RolloutContext["agents"]): { planner: AgentEndpoint; searcher: AgentEndpoint } {
  const { main: planner, searcher } = agents;
  if (!planner || !searcher) throw new Error("this app needs the agents main and searcher");
  return { planner, searcher };
}

/** The answer between the tags. Undefined unless the text has exactly one, not empty, and no trace of a call. */
export function taggedAnswer(text: string): string | undefined {
  const isWhole = (text.match(/<\/?answer>/g) ?? []).join("") === "<answer></answer>";
  const [, answer] = text.split(/<\/?answer>/);
  return isWhole && !/<\/?tool_|<\|/.test(text) ? answer?.trim() || undefined : undefined;
}
