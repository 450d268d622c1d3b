/**
 * @file Finds a recipe by name (`atlas`, `recipes/atlas`) or by the path of its folder. Recipes of this repository are named by literal
 * imports, so that a bundler takes them along; any other folder is imported at run time.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { MgrpoError } from "../core/errors.ts";
import type { Rewards } from "../core/ports.ts";
import type { Recipe, RewardsModule, ToolsModule } from "../core/recipe.ts";

interface Modules {
  recipe(): Promise<{ recipe: Recipe }>;
  rewards(): Promise<RewardsModule>;
  tools(): Promise<ToolsModule>;
}

const KNOWN: Record<string, Modules> = {
  atlas: {
    recipe: () => import("./atlas/recipe.ts"),
    rewards: () => import("./atlas/rewards.ts"),
    tools: () => import("./atlas/tools.ts"),
  },
};

export const openRecipe = async (nameOrPath: string): Promise<Recipe> => (await open(nameOrPath, "recipe")).recipe;
export const openRewards = async (nameOrPath: string): Promise<Rewards> => (await open(nameOrPath, "rewards")).rewards;
export const openTools = (nameOrPath: string): Promise<ToolsModule> => open(nameOrPath, "tools");

type Loaded = { [K in keyof Modules]: Awaited<ReturnType<Modules[K]>> };

async function open<K extends keyof Modules>(nameOrPath: string, part: K): Promise<Loaded[K]> {
  const known = KNOWN[nameOrPath.replace(/^(\.\/)?recipes\//, "").replace(/\/$/, "")];
  const module = known ? await known[part]() : await importPart(nameOrPath, part);
  if (part in module && (module as Record<string, unknown>)[part] !== undefined) return module as Loaded[K];
  throw new MgrpoError("recipe-invalid", `${nameOrPath}/${part}.ts exports no '${part}': see core/recipe.ts`);
}

async function importPart(folder: string, part: string): Promise<object> {
  const files = [".ts", ".js", ".mjs"].map((extension) => resolve(folder, `${part}${extension}`));
  const file = files.find((name) => existsSync(name));
  if (file === undefined) {
    const known = Object.keys(KNOWN).join(", ");
    const fault = existsSync(folder) ? `has no ${part}.ts` : "does not exist";
    throw new MgrpoError(
      "recipe-invalid",
      `recipe '${folder}' ${fault}: name a folder with recipe.ts, rewards.ts and tools.ts, or one of: ${known}`,
    );
  }
  try {
    return (await import(pathToFileURL(file).href)) as object;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new MgrpoError("recipe-invalid", `${file} cannot be loaded: ${why}`, { cause });
  }
}
