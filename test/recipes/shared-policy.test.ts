/** @file The arm shared-policy in atlas and in recipes built on it: refused with shipped models that do not fit, and accepted with the user's models. */
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

test("an app cannot use the shipped model, which needs atlas's system messages; the native loop can", () => {
  expect(() => resolved(app, [])).toThrow("arm shared-policy: atlas's shared model needs atlas's system messages");
  expect(resolved(app, ["runner=native"]).agents["searcher"]?.policy).toBe("of:main");
  expect(resolved(app, ownModels("main", "searcher")).agents["searcher"]).toMatchObject({
    policy: "of:main",
    system: "",
  });
});

test("a team of three roles is refused without models of the user: no shipped model has all three", () => {
  expect(() => resolved(twoSubs, [])).toThrow("arm shared-policy has no base model for three roles");
  expect(resolved(twoSubs, ownModels("main", "searcher", "finder")).agents["finder"]?.policy).toBe("of:main");
});
