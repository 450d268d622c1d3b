/**
 * @file What the example apps share: the questions, base models and settings of atlas. Tool definitions, prompts and loops are the apps'
 * own; with `--set runner=native`, the same team runs in mgrpo's own loop, with atlas's tools.
 */
import { MgrpoError } from "../../core/errors.ts";
import type { Recipe } from "../../core/recipe.ts";
import { recipe as atlas } from "../../recipes/atlas/recipe.ts";

export function atlasAppRecipe(name: string): Recipe {
  return {
    name,
    config(arm, chosen) {
      const isShipped = chosen("agents.main.model") === undefined;
      if (arm === "shared-policy" && isShipped && chosen("runner") !== "native") {
        const message = `arm ${arm}: atlas's shared model needs atlas's system messages: add --set runner=native`;
        throw new MgrpoError("config-invalid", message);
      }
      return { ...atlas.config(arm, chosen), runner: "recipe" };
    },
    questions: atlas.questions,
    ...(atlas.ask && { ask: atlas.ask }),
    ...(atlas.note && { note: atlas.note }),
    ...(atlas.baseModels && { baseModels: atlas.baseModels }),
  };
}
