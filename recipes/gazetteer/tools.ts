/** @file The tools of gazetteer: `search` and `visit` over the prose pages of the question's world, and `calculate`. */
import * as z from "zod";
import { calculate } from "../../adapters/tools/calculate.ts";
import type { Tool, ToolContext } from "../../core/ports.ts";
import { factsOf } from "../atlas/questions/facts.ts";
import { openLibrary } from "../atlas/world/library.ts";
import { pagesOf } from "./world/pages.ts";

export const { searched, visited } = openLibrary(pagesOf);

const search: Tool<{ query: string }> = {
  name: "search",
  description: "Returns the titles of the three best pages. Separate several terms by commas.",
  parameters: z.strictObject({ query: z.string() }),
  run: async ({ query }, context) => searched(worldIn(context), query),
};

const visit: Tool<{ title: string }> = {
  name: "visit",
  description: "Opens a page.",
  parameters: z.strictObject({ title: z.string() }),
  run: async ({ title }, context) => visited(worldIn(context), title),
};

const arithmetic: Tool<{ expression: string }> = { ...calculate, description: "Evaluates an arithmetic expression." };

export const tools: ReadonlyMap<string, Tool> = new Map<string, Tool>([
  ["search", search],
  ["visit", visit],
  ["calculate", arithmetic],
]);

const worldIn = (context: ToolContext): number => factsOf(context.question).world;
