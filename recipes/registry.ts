/** @file Opens a recipe: its config and questions, its tools, its app. rewards.ts opens its rewards. */
import { dirname } from "node:path";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import type {
  OpenedTools,
  OpenTools,
  Recipe,
  RecipeDefinition,
  Rollout,
  RolloutModule,
  ToolsModule,
  ToolsOpening,
} from "../core/recipe.ts";
import { toolsWithin } from "../core/tools-within.ts";
import { checkedRecipe } from "./checked-recipe.ts";
import { whatThrew } from "./checked-rewards.ts";
import { withoutExit } from "./guarded-exit.ts";
import { bundledName, fileOfPart, hiddenFile, openPart } from "./modules.ts";

const RECIPES: Record<string, () => Promise<{ recipe: RecipeDefinition }>> = {
  atlas: () => import("./atlas/recipe.ts"),
  "atlas-two-subs": () => import("./atlas-two-subs/recipe.ts"),
  "deep-research": () => import("./deep-research/recipe.ts"),
  gazetteer: () => import("./gazetteer/recipe.ts"),
  tally: () => import("./tally/recipe.ts"),
};
const TOOLS: Record<string, () => Promise<ToolsModule>> = {
  atlas: () => import("./atlas/tools.ts"),
  "atlas-two-subs": () => import("./atlas-two-subs/tools.ts"),
  "deep-research": () => import("./deep-research/tools.ts"),
  gazetteer: () => import("./gazetteer/tools.ts"),
  tally: () => import("./tally/tools.ts"),
};

/** Opens the recipe that a user names. Rejects with `config-invalid` a name that is also that of a folder with the user's own recipe. */
export async function openNamedRecipe(nameOrPath: string): Promise<Recipe> {
  const hidden = hiddenRecipe(nameOrPath);
  if (hidden === undefined) return openRecipe(nameOrPath);
  throw new MgrpoError(
    "config-invalid",
    `recipe '${nameOrPath}' comes with mgrpo, but there is also ${hidden}: write ./${nameOrPath} to use yours, or rename its folder to use mgrpo's`,
  );
}

/** The user's recipe.ts that a name alone does not lead to, since a recipe of this repository has that name. */
export const hiddenRecipe = (name: string): string | undefined => hiddenFile(RECIPES, name);

/** A user's recipe is checked (checked-recipe.ts). */
export async function openRecipe(nameOrPath: string): Promise<Recipe> {
  const { recipe } = await openPart(RECIPES, nameOrPath, "recipe");
  // The config of a recipe of this repository is a function.
  if (bundledName(RECIPES, nameOrPath) !== undefined) return recipe as Recipe;
  return checkedRecipe(recipe, fileOfPart(nameOrPath, "recipe") ?? nameOrPath);
}

/** The folder of a user's recipe; undefined for a recipe of this repository. */
export function recipeFolder(nameOrPath: string): string | undefined {
  if (bundledName(RECIPES, nameOrPath) !== undefined) return undefined;
  const file = fileOfPart(nameOrPath, "recipe");
  return file && dirname(file);
}

/** A user's recipe without tools.ts has no tools: an app brings its own. */
export async function openToolsModule(nameOrPath: string): Promise<ToolsModule> {
  const has = (part: string) => fileOfPart(nameOrPath, part) !== undefined;
  const isOurs = bundledName(TOOLS, nameOrPath) !== undefined;
  // In a release, a user's recipe has its rewards but no recipe.ts.
  const hasNone = !isOurs && (has("recipe") || has("rewards")) && !has("tools");
  return hasNone ? { tools: new Map() } : openPart(TOOLS, nameOrPath, "tools");
}

/** Instead of `process.exit` in an app. */
const GIVING_UP = "throw an error, or return { failed } if the team has failed";

/** The app that runs a recipe's rollouts. Rejects with `recipe-invalid`. */
export async function openRollout(nameOrPath: string): Promise<Rollout> {
  const { rollout } = await openPart<RolloutModule>({}, nameOrPath, "rollout");
  if (typeof rollout === "function") return (context) => withoutExit(GIVING_UP, async () => rollout(context));
  throw new MgrpoError(
    "recipe-invalid",
    `rollout.ts of recipe '${nameOrPath}': 'rollout' is not a function: see docs/your-own-agents.md`,
  );
}

/** Instead of `process.exit` in a tool. */
const FAILING = "throw an error if the tool cannot do its work";
/** Instead of `process.exit` in the function that opens tools, or in the one that closes them. */
const OPENING = "throw an error if the tools cannot be opened";
const CLOSING = "let close() end only what tools() opened";

/** The same tools, in which, and in whose `close`, `process.exit` throws. */
const withoutExits = (opened: OpenedTools): OpenedTools => ({
  ...opened,
  tools: toolsWithin(opened.tools, (_name, call) => withoutExit(FAILING, call)),
  close: () => withoutExit(CLOSING, async () => opened.close()),
});

/**
 * Opens a recipe's tools. Rejects with `recipe-invalid` if they are malformed or a user's function throws (an MgrpoError that it throws is
 * kept), and with `config-invalid` if the config has settings for tools that take none.
 */
export async function openTools(module: ToolsModule, opening: ToolsOpening): Promise<OpenedTools> {
  const opened = await openGiven(module, opening);
  return bundledName(TOOLS, opening.config.recipe) === undefined ? withoutExits(opened) : opened;
}

async function openGiven({ tools }: ToolsModule, opening: ToolsOpening): Promise<OpenedTools> {
  const { recipe, tools: settings } = opening.config;
  if (typeof tools === "function") {
    const opened: Partial<OpenedTools> | undefined = await callTools(tools, opening);
    if (isMap(opened?.tools) && typeof opened?.close === "function") return opened as OpenedTools;
    throw new MgrpoError(
      "recipe-invalid",
      `tools.ts of recipe '${recipe}': tools() does not return { tools, close }: return a Map of tools by name, and a function that closes what was opened`,
    );
  }
  if (!isMap(tools)) {
    throw new MgrpoError(
      "recipe-invalid",
      `tools.ts of recipe '${recipe}': 'tools' is not a Map: write new Map([[tool.name, tool]])`,
    );
  }
  const names = Object.keys(settings);
  if (names.length === 0) return { tools, close: async () => {} };
  throw new MgrpoError(
    "config-invalid",
    `tools.${names.join(", tools.")}: the tools of recipe '${recipe}' take no settings: remove ${names.length === 1 ? "it" : "them"}`,
  );
}

/** What the user's function returns. An exception in it may be an outage of what the tools connect to, so a retry may help. */
async function callTools(tools: OpenTools, opening: ToolsOpening): Promise<OpenedTools> {
  const { recipe } = opening.config;
  if (bundledName(TOOLS, recipe) !== undefined) return tools(opening);
  try {
    return await withoutExit(OPENING, () => tools(opening));
  } catch (cause) {
    const file = fileOfPart(recipe, "tools");
    if (isMgrpoError(cause) || file === undefined) throw cause;
    throw new MgrpoError("recipe-invalid", `${file}: tools() ${whatThrew(file, cause)}`, { retryable: true, cause });
  }
}

/** False for the wrong exports of a recipe that is not type-checked, such as an object or an array of tools. */
const isMap = (tools: unknown): boolean =>
  typeof (tools as Partial<ReadonlyMap<string, unknown>> | null | undefined)?.get === "function";
