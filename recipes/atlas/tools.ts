/** @file The tools of atlas: `search` and `visit` over the pages of the question's world, and `calculate`. */
import * as z from "zod";
import { calculate } from "../../adapters/tools/calculate.ts";
import { openSearchIndex, type SearchIndex } from "../../adapters/tools/search.ts";
import type { Tool, ToolContext } from "../../core/ports.ts";
import { factsOf } from "./questions/facts.ts";
import { pagesOf } from "./world/pages.ts";
import { worldOf } from "./world/world.ts";

interface Library {
  readonly pages: ReadonlyMap<string, string>;
  readonly index: SearchIndex;
}

const TITLES = 3;
const libraries = new Map<number, Library>();

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

export function searched(world: number, query: string): string {
  const titles = libraryOf(world).index.titles(query, TITLES);
  return titles.length === 0 ? "nothing found" : titles.join("\n");
}

export function visited(world: number, title: string): string {
  return libraryOf(world).pages.get(title.trim()) ?? "no such page";
}

const worldIn = (context: ToolContext): number => factsOf(context.question).world;

function libraryOf(world: number): Library {
  const known = libraries.get(world);
  if (known) return known;
  const pages = pagesOf(worldOf(world));
  const library = { pages, index: openSearchIndex(pages) };
  libraries.set(world, library);
  return library;
}
