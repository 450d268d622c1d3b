/**
 * @file The library of a recipe's worlds: search and visits over the pages of a world, and the tools for them. A world's pages are indexed once
 * per process.
 */
import * as z from "zod";
import { openSearchIndex, type SearchIndex } from "../../../adapters/tools/search.ts";
import type { Tool, ToolContext } from "../../../core/ports.ts";
import { factsOf } from "../questions/facts.ts";
import { type World, worldOf } from "./world.ts";

export interface Library {
  /** The titles of the best pages, one a line. */
  searched(world: number, query: string): string;
  /** The page of that title. */
  visited(world: number, title: string): string;
}

interface Shelf {
  readonly pages: ReadonlyMap<string, string>;
  readonly index: SearchIndex;
}

const TITLES = 3;

/** @param pagesOf the pages of a world, title -> text. */
export function openLibrary(pagesOf: (world: World) => ReadonlyMap<string, string>): Library {
  const shelves = new Map<number, Shelf>();
  const shelfOf = (world: number): Shelf => {
    const known = shelves.get(world);
    if (known) return known;
    const pages = pagesOf(worldOf(world));
    const shelf = { pages, index: openSearchIndex(pages) };
    shelves.set(world, shelf);
    return shelf;
  };
  return {
    searched(world, query) {
      const titles = shelfOf(world).index.titles(query, TITLES);
      return titles.length === 0 ? "nothing found" : titles.join("\n");
    },
    visited: (world, title) => shelfOf(world).pages.get(title.trim()) ?? "no such page",
  };
}

/** `search` and `visit` in the world of the question. @param descriptions what the agent reads of each. */
export function libraryTools(
  { searched, visited }: Library,
  descriptions: { readonly search: string; readonly visit: string },
): readonly [Tool<{ query: string }>, Tool<{ title: string }>] {
  return [
    {
      name: "search",
      description: descriptions.search,
      parameters: z.strictObject({ query: z.string() }),
      run: async ({ query }, context) => searched(worldIn(context), query),
    },
    {
      name: "visit",
      description: descriptions.visit,
      parameters: z.strictObject({ title: z.string() }),
      run: async ({ title }, context) => visited(worldIn(context), title),
    },
  ];
}

const worldIn = (context: ToolContext): number => factsOf(context.question).world;
