/** @file A launch on a deployment names a user's recipe by its path in the deployed project, as functions and instances do. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { refuseUndeployedRecipe } from "../../cli/deployment.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "mgrpo-undeployed-")));
const project = join(folder, "project");
const link = join(folder, "link");
const home = process.cwd();
for (const recipe of [join(project, "recipes/team"), join(folder, "elsewhere")]) {
  mkdirSync(recipe, { recursive: true });
  writeFileSync(join(recipe, "recipe.ts"), "");
}
symlinkSync(project, link, "junction");
afterAll(() => {
  process.chdir(home);
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

const launch = (recipe: string, { from, deployed }: { from: string; deployed: string }) => {
  process.chdir(from);
  vi.stubEnv("MGRPO_PROJECT", deployed);
  return () => refuseUndeployedRecipe(recipe);
};

test.each([
  ["the name of a recipe of this repository", "atlas", folder, ""],
  ["the path in the project, from the project", "recipes/team", project, project],
  ["the path in the project, from elsewhere", "./recipes/team/", folder, "project"],
  ["the path in the project, which is named by a link", "recipes/team", project, link],
])("accepted: %s", (_what, recipe, from, deployed) => {
  expect(launch(recipe, { from, deployed })).not.toThrow();
});

test.each([
  ["an absolute path", join(project, "recipes/team"), folder, link, /launch recipes.team$/],
  ["a path from below the project", "team", join(project, "recipes"), project, /launch recipes.team$/],
  ["a path that leaves the project and returns", "../project/recipes/team", project, project, /launch recipes.team$/],
  [
    "a path from beside the project",
    "../project/recipes/team",
    join(folder, "elsewhere"),
    project,
    /launch recipes.team$/,
  ],
  ["a recipe beside the project", "../elsewhere", project, project, /is not deployed: set MGRPO_PROJECT/],
  ["a recipe, with nothing deployed", "recipes/team", project, "", /is not deployed: set MGRPO_PROJECT/],
])("refused: %s", (_what, recipe, from, deployed, message) => {
  expect(launch(recipe, { from, deployed })).toThrow(message);
});
