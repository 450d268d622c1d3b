/**
 * @file A user's recipe, for the first time: the base models that it describes are made, here on too few tokens to learn anything, and `train`
 * warns that the first step taught nothing. A case study or a note that throws does not fail the command.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mgrpo, projectOfFile, RELAY, readReport, relaySettings } from "./command-line.ts";
import { createdTeam } from "./created-team.ts";

const folder = projectOfFile();

test("train makes the missing base models, and warns if the first step taught nothing", async () => {
  const team = createdTeam(folder, "first");
  const recipe = join(team, "recipe.ts");
  writeFileSync(recipe, readFileSync(recipe, "utf8").replace(/tokens: [\d_]+/g, "tokens: 2000"));
  const small = ["questionsPerStep=1", "rolloutsPerQuestion=2", "evaluation.suites=[]"].flatMap((set) => [
    "--set",
    set,
  ]);
  const { code, stdout, stderr } = await mgrpo(folder, "train", team, "--steps", "1", ...small);
  expect(stderr).toMatch(/^making .*models\/main and .*models\/searcher from the recipe's demonstrations, once$/m);
  expect(readdirSync(join(team, "models", "main"))).toContain("model.safetensors");
  expect(stdout).toMatch(/the first step taught 'main' nothing: no rollout is well-formed/);
  expect(code).toBe(0);
});

test("compare makes the base models that the recipe describes, once nothing else keeps its runs from starting", async () => {
  const team = createdTeam(folder, "project");
  const recipe = join(team, "recipe.ts");
  writeFileSync(recipe, readFileSync(recipe, "utf8").replaceAll(/tokens: [\d_]+/g, "tokens: 500"));
  const compare = (setting: string) => mgrpo(folder, "compare", team, "--arms", "mgrpo", "--set", setting);
  const untracked = await compare('track=["mlflow"]');
  expect([untracked.code, untracked.stderr]).toEqual([1, expect.stringMatching(/^mgrpo: .*MLFLOW_TRACKING_URI.*\n$/)]);
  // A context that the models are too small for is refused, which ends the command once they are made.
  const { code, stderr } = await compare("agents.main.limits.contextTokens=100000");
  expect(stderr).toMatch(/^making \S*models\/main and \S*models\/searcher from the recipe's demonstrations, once\n/);
  expect(stderr).toMatch(/\nmgrpo: .*contextTokens.*\n$/);
  expect(code).toBe(1);
  for (const agent of ["main", "searcher"])
    expect(existsSync(join(team, "models", agent, "model.safetensors"))).toBe(true);
});

test("a case study that throws is left out of the report, with a warning; where a note throws, show says that it failed", async () => {
  const recipe = join(folder, "faulty");
  mkdirSync(recipe);
  const from = (part: string) => JSON.stringify(join(RELAY, `${part}.js`));
  for (const part of ["rewards", "tools"]) writeFileSync(join(recipe, `${part}.mjs`), `export * from ${from(part)};`);
  const broken = "{ name: 'broken', expected: 'x', checks: ({ facts }) => [facts.no.such] }";
  writeFileSync(
    join(recipe, "recipe.mjs"),
    `import { recipe as relay } from ${from("recipe")};
    const note = () => { throw new Error("no note"); };
    export const recipe = { ...relay, note, caseStudies: [${broken}, ...relay.caseStudies] };`,
  );
  const settings = relaySettings({ name: "sampled" });
  const trained = await mgrpo(folder, "train", recipe, "--run", "faulty", "--steps", "1", ...settings);
  expect(trained.stdout).toMatch(
    /warning: case study 'broken' is left out of the report: \S*recipe\.mjs: case study 'broken': checks\(\) for question '\S+' threw TypeError/,
  );
  expect(trained.code).toBe(0);
  const { caseStudies } = readReport(folder, "faulty");
  expect(caseStudies).toMatchObject([{ study: "delegation" }]);
  const shown = await mgrpo(folder, "show", "faulty", "0/0");
  expect(shown.stdout).toMatch(/the\s+recipe's\s+note\s+failed/);
  expect(shown.code).toBe(0);
});
