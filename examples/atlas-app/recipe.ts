/** @file What the example apps share: the questions, base models and settings of atlas. Tools, prompts and loops are the apps' own. */
import type { Arm, RunConfigInput } from "../../core/contracts/config.ts";
import type { Recipe, RecipeConfig } from "../../core/recipe.ts";
import { recipe as atlas } from "../../recipes/atlas/recipe.ts";

export function atlasAppRecipe(name: string): Recipe {
  return {
    name,
    config(arm: Arm): RecipeConfig {
      const { agents, evaluation, ...rest } = atlas.config(arm, () => undefined);
      const suites = evaluation?.suites?.filter(({ closedBook }) => !closedBook);
      return { ...rest, runner: "recipe", agents: withoutTools(agents), evaluation: { ...evaluation, suites } };
    },
    questions: atlas.questions,
    ...(atlas.ask && { ask: atlas.ask }),
    ...(atlas.note && { note: atlas.note }),
    ...(atlas.baseModels && { baseModels: atlas.baseModels }),
  };
}

function withoutTools(agents: RunConfigInput["agents"]): RunConfigInput["agents"] {
  return Object.fromEntries(Object.entries(agents).map(([name, agent]) => [name, { ...agent, tools: [] }]));
}
