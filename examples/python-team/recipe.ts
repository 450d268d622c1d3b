/** @file Trains the app in app.py, which runs elsewhere, on atlas's questions. */
import type { Recipe } from "../../core/recipe.ts";
import { atlasAppRecipe } from "../atlas-app/recipe.ts";

const app = atlasAppRecipe("python-team");

export const recipe: Recipe = {
  ...app,
  config: (arm, chosen) => ({ ...app.config(arm, chosen), runner: { url: "http://127.0.0.1:8787/" } }),
};
