/** @file The tools of gazetteer: `search` and `visit` over the prose pages of the question's world, and `calculate`. */
import { calculate } from "../../adapters/tools/calculate.ts";
import type { Tool } from "../../core/ports.ts";
import { libraryTools, openPageLibrary } from "../atlas/world/library.ts";
import { pagesOf } from "./world/pages.ts";

const library = openPageLibrary(pagesOf);
export const { searchTitles, pageText } = library;

const [search, visit] = libraryTools(library, {
  search: "Returns the titles of the three best pages. Separate terms with commas.",
  visit: "Opens a page.",
});

export const tools: ReadonlyMap<string, Tool> = new Map<string, Tool>([
  ["search", search],
  ["visit", visit],
  ["calculate", calculate],
]);
