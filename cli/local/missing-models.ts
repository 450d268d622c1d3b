/** @file Base models that a recipe describes and a team needs, but that do not exist: `train`, `compare` and `dev` make them; `ask` refuses. */
import { relative, resolve } from "node:path";
import type { RunConfig } from "../../core/contracts/config.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { BaseModel, Recipe } from "../../core/recipe.ts";
import { hasModel, pretrain } from "../pretrain.ts";
import { MGRPO, quotedPath } from "../terminal/name.ts";
import { preflight, type Site } from "./preflight.ts";

/** Makes the team's base models whose folders have no model. That takes minutes, so other errors that `preflight` finds are thrown first. */
export async function makeMissingModels(
  recipeName: string,
  recipe: Recipe,
  config: RunConfig,
  site: Pick<Site, "begins" | "checkStore">,
): Promise<void> {
  const missing = missingModels(recipe, config);
  if (missing.length === 0) return;
  const { findings } = await preflight(config, { workers: "here", models: "stored", ...site });
  findings.throwErrors();
  const folders = missing.map(({ folder }) => relative(".", folder));
  console.error(`making ${folders.join(" and ")} from the recipe's demonstrations, once`);
  await pretrain(recipeName, { only: missing.map(({ folder }) => folder) });
}

/** For a command that only asks the team, and does not train. */
export function refuseMissingModels(recipe: Recipe, config: RunConfig): void {
  const [missing] = missingModels(recipe, config);
  if (!missing) return;
  const remedy = `make the recipe's base models first: ${MGRPO} pretrain ${quotedPath(config.recipe)}`;
  throw new MgrpoError("not-found", `${relative(".", missing.folder)} has no model yet: ${remedy}`);
}

function missingModels({ baseModels = [] }: Recipe, { agents }: RunConfig): BaseModel[] {
  const wanted = new Set(Object.values(agents).map(({ model }) => resolve(model)));
  return baseModels.filter(({ folder }) => wanted.has(resolve(folder)) && !hasModel(folder));
}
