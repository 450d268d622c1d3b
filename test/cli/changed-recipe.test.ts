/** @file A kept evaluation whose recipe has changed since it began: the user learns that some of its scores may come from the earlier code. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { noteChangedRecipe } from "../../cli/suite/evaluate.ts";

const project = mkdtempSync(join(tmpdir(), "mgrpo-changed-recipe-"));
afterAll(() => rmSync(project, { recursive: true }));

test("a recipe that has changed since its evaluation began is reported each time until it is changed back; a recipe of this package is never reported", () => {
  const [recipe, folder] = [join(project, "team"), join(project, "evaluation")];
  for (const one of [recipe, folder]) mkdirSync(one);
  const rewards = (text: string) => writeFileSync(join(recipe, "rewards.ts"), text);
  writeFileSync(join(recipe, "recipe.ts"), "export const recipe = {};");
  const errors = vi.spyOn(console, "error").mockImplementation(() => {});
  const noted = (name = recipe) => {
    errors.mockClear();
    noteChangedRecipe(folder, name);
    return errors.mock.calls.flat();
  };
  try {
    rewards("export const correct = 1;");
    expect([...noted(), ...noted()]).toEqual([]);
    rewards("export const correct = 0;");
    for (const _ of [1, 2])
      expect(noted()).toEqual([
        `recipe '${recipe}' has changed since this evaluation began: answers and scores so far may come from its earlier code or data; to start the evaluation over, remove ${folder}`,
      ]);
    expect(noted("atlas")).toEqual([]);
    rewards("export const correct = 1;");
    expect(noted()).toEqual([]);
  } finally {
    errors.mockRestore();
  }
});
