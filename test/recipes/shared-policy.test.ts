/** @file The arm shared-policy in recipes built on atlas: refused with the shipped models where they do not fit, and taken with models of the user. */
import { expect, test } from "vitest";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { atlasAppRecipe } from "../../examples/atlas-app/recipe.ts";
import { recipe as atlas } from "../../recipes/atlas/recipe.ts";
import { recipe as twoSubs } from "../../recipes/atlas-two-subs/recipe.ts";

const app = atlasAppRecipe("app");
const resolved = (recipe: typeof app, set: string[]) =>
  resolveConfig(recipe, { run: "r", seed: 1, arm: "shared-policy", set });
const ownModels = (...agents: string[]) => agents.map((agent) => `agents.${agent}.model=own`);

test("atlas has one base model for both roles, with a system message each", () => {
  const { main, searcher } = resolved(atlas, []).agents;
  expect(searcher).toMatchObject({ policy: "of:main", model: main?.model });
  expect(main?.system).not.toBe(searcher?.system);
});

test("an app sends no system messages, which the shipped model needs; the native loop does", () => {
  expect(() => resolved(app, [])).toThrow("arm shared-policy: atlas's shared model needs atlas's system messages");
  expect(resolved(app, ["runner=native"]).agents["searcher"]?.policy).toBe("of:main");
  expect(resolved(app, ownModels("main", "searcher")).agents["searcher"]).toMatchObject({
    policy: "of:main",
    system: "",
  });
});

test("a team of three roles has no shipped model for all of them", () => {
  expect(() => resolved(twoSubs, [])).toThrow("arm shared-policy has no base model for three roles");
  expect(resolved(twoSubs, ownModels("main", "searcher", "finder")).agents["finder"]?.policy).toBe("of:main");
});
