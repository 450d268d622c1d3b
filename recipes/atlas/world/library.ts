/**
 * @file Full-text search and page look-up over a recipe's worlds, and the `search` and `visit` tools. A world's pages are indexed once per
 * process.
 */
import * as z from "zod";
import { openSearchIndex, type SearchIndex } from "../../../adapters/tools/search.ts";
import type { Tool, ToolContext } from "../../../core/ports.ts";
import { factsOf } from "../questions/facts.ts";
import { type World, worldOf } from "./world.ts";

export interface PageLibrary {
  /** Titles of the best matches, one per line, or `nothing found`. */
  searchTitles(world: number, query: string): string;
  /** The page with this title, or `no such page`. */
  pageText(world: number, title: string): string;
}

interface IndexedPages {
  readonly pages: ReadonlyMap<string, string>;
  readonly index: SearchIndex;
}

const MAX_TITLES = 3;

/** @param pagesOf the pages of a world, title -> text. */
export function openPageLibrary(pagesOf: (world: World) => ReadonlyMap<string, string>): PageLibrary {
  const indexed = new Map<number, IndexedPages>();
  const pagesIn = (world: number): IndexedPages => {
    const known = indexed.get(world);
    if (known) return known;
    const pages = pagesOf(worldOf(world));
    const opened = { pages, index: openSearchIndex(pages) };
    indexed.set(world, opened);
    return opened;
  };
  return {
    searchTitles(world, query) {
      const titles = pagesIn(world).index.titles(query, MAX_TITLES);
      return titles.length === 0 ? "nothing found" : titles.join("\n");
    },
    pageText: (world, title) => pagesIn(world).pages.get(title.trim()) ?? "no such page",
  };
}

/** `search` and `visit` in the world of the question. */
export function libraryTools(
  { searchTitles, pageText }: PageLibrary,
  descriptions: { readonly search: string; readonly visit: string },
): readonly [Tool<{ query: string }>, Tool<{ title: string }>] {
  return [
    {
      name: "search",
      description: descriptions.search,
      parameters: z.strictObject({ query: z.string() }),
      run: async ({ query }, context) => searchTitles(worldIn(context), query),
    },
    {
      name: "visit",
      description: descriptions.visit,
      parameters: z.strictObject({ title: z.string() }),
      run: async ({ title }, context) => pageText(worldIn(context), title),
    },
  ];
}

const worldIn = (context: ToolContext): number => factsOf(context.question).world;
