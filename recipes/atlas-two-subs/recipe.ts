/** @file The default recipe with two sub-agents: one looks up facts about a country, the other finds the country that fits given facts. See README.md. */
import { MgrpoError } from "../../core/errors.ts";
import type { Recipe } from "../../core/recipe.ts";
import { plannerOfTwo } from "../atlas/bases.ts";
import { firstDemonstrations } from "../atlas/demonstrations/demonstrations.ts";
import { recipe as atlas } from "../atlas/recipe.ts";

export const recipe: Recipe = {
  ...atlas,
  name: "atlas-two-subs",
  config,
  baseModels: [plannerOfTwo],
  // Both sub-agents learn from the same demonstrations, because they start from the same base model.
  demonstrations: (agent, _arm, seed) => firstDemonstrations(agent === "main" ? "main-of-two" : "searcher", seed),
};

function config(...[arm, chosen]: Parameters<Recipe["config"]>): ReturnType<Recipe["config"]> {
  if (arm === "shared-policy" && chosen("agents.main.model") === undefined) {
    throw new MgrpoError("config-invalid", `arm ${arm} has no base model for three roles: train it with recipe atlas`);
  }
  const common = atlas.config(arm, chosen);
  const { main, searcher } = common.agents;
  if (!main || !searcher) {
    throw new MgrpoError("config-invalid", `arm ${arm} has no sub-agents: train it with recipe atlas`);
  }
  return {
    ...common,
    agents: {
      main: { ...main, model: plannerOfTwo.folder, delegates: ["searcher", "finder"] },
      searcher,
      // The same base model: the two differ only in what they are trained on.
      finder: searcher,
    },
  };
}
