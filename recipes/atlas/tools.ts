/** @file The tools of atlas: `search` and `visit` over the pages of the question's world, and `calculate`. */
import { calculate } from "../../adapters/tools/calculate.ts";
import type { Tool } from "../../core/ports.ts";
import { libraryTools, openPageLibrary } from "./world/library.ts";
import { pagesOf } from "./world/pages.ts";

const library = openPageLibrary(pagesOf);
export const { searchTitles, pageText } = library;

const [search, visit] = libraryTools(library, {
  search: "Searches the atlas; returns the titles of the three best pages. Several terms are separated by commas.",
  visit: "Opens the page of that title.",
});

export const tools: ReadonlyMap<string, Tool> = new Map<string, Tool>([
  ["search", search],
  ["visit", visit],
  ["calculate", calculate],
]);
