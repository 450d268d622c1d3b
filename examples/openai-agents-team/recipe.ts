/** @file Trains the app in app.ts on atlas's questions. */
import type { Recipe } from "../../core/recipe.ts";
import { atlasAppRecipe } from "../atlas-app/recipe.ts";

export const recipe: Recipe = atlasAppRecipe("openai-agents-team");
