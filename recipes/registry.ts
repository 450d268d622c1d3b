/** @file A recipe's config and questions, for the command line, and its tools, for workers. Its rewards are found by rewards.ts. */
import type { Recipe, ToolsModule } from "../core/recipe.ts";
import { openPart } from "./modules.ts";

const RECIPES = { atlas: () => import("./atlas/recipe.ts") };
const TOOLS: Record<string, () => Promise<ToolsModule>> = { atlas: () => import("./atlas/tools.ts") };

export const openRecipe = async (nameOrPath: string): Promise<Recipe> =>
  (await openPart(RECIPES, nameOrPath, "recipe")).recipe;
export const openTools = (nameOrPath: string): Promise<ToolsModule> => openPart(TOOLS, nameOrPath, "tools");
