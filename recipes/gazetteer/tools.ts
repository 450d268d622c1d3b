/** @file The tools of gazetteer: `search` and `visit` over the prose pages of the question's world, and `calculate`. */
import { calculate } from "../../adapters/tools/calculate.ts";
import type { Tool } from "../../core/ports.ts";
import { libraryTools, openLibrary } from "../atlas/world/library.ts";
import { pagesOf } from "./world/pages.ts";

const library = openLibrary(pagesOf);
export const { searched, visited } = library;

const [search, visit] = libraryTools(library, {
  search: "Returns the titles of the three best pages. Separate several terms by commas.",
  visit: "Opens a page.",
});

const arithmetic: Tool<{ expression: string }> = { ...calculate, description: "Evaluates an arithmetic expression." };

export const tools: ReadonlyMap<string, Tool> = new Map<string, Tool>([
  ["search", search],
  ["visit", visit],
  ["calculate", arithmetic],
]);
