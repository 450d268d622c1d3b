/** @file The tools of atlas: `search` and `visit` over the pages of the question's world, and `calculate`. */
import * as z from "zod";
import { calculate } from "../../adapters/tools/calculate.ts";
import type { Tool, ToolContext } from "../../core/ports.ts";
import { factsOf } from "./questions/facts.ts";
import { openLibrary } from "./world/library.ts";
import { pagesOf } from "./world/pages.ts";

export const { searched, visited } = openLibrary(pagesOf);

const search: Tool<{ query: string }> = {
  name: "search",
  description: "Searches the atlas; returns the titles of the three best pages. Several terms are separated by commas.",
  parameters: z.strictObject({ query: z.string() }),
  run: async ({ query }, context) => searched(worldIn(context), query),
};

const visit: Tool<{ title: string }> = {
  name: "visit",
  description: "Opens the page of that title.",
  parameters: z.strictObject({ title: z.string() }),
  run: async ({ title }, context) => visited(worldIn(context), title),
};

export const tools: ReadonlyMap<string, Tool> = new Map<string, Tool>([
  ["search", search],
  ["visit", visit],
  ["calculate", calculate],
]);

const worldIn = (context: ToolContext): number => factsOf(context.question).world;
