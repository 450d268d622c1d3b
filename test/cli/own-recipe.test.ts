/**
 * @file A user's recipe: the built commands in dist/ load its TypeScript from a folder without a package.json and from an ES module package, and
 * `compare` makes its base models. An exception in its tools names their file. A case study or a note that throws does not fail the command.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { mgrpo, projectOfFile, RELAY, readReport, relaySettings } from "./command-line.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const folder = projectOfFile();

test.each([
  ["not a package", {}],
  ["an ES module package", { "package.json": '{ "type": "module" }' }],
])("a recipe loads from a folder that is %s", async (name, more) => {
  const recipe = join(folder, name);
  mkdirSync(recipe);
  const files = {
    ...more,
    "questions.ts": "export const words: readonly string[] = [];",
    "recipe.ts": `
      import { words } from "./questions.ts";
      const agents: Record<string, { model: string }> = { main: { model: "m", delegates: words } };
      export const recipe = { name: "mine", config: () => ({ steps: 1, agents }), questions: () => ({ train: [], heldOut: [] }) };`,
  };
  for (const [file, text] of Object.entries(files)) writeFileSync(join(recipe, file), text);
  const { code, stderr } = await mgrpo(folder, "train", recipe, "--run", "mine", "--set", "seeed=1");
  expect(stderr).toMatch(/^mgrpo: config of run 'mine': Unrecognized key: "seeed"/);
  expect(code).toBe(1);
});

/** A project with the recipe of `npm create mgrpo` in its folder team/, whose path it returns. */
function createdTeam(project: string): string {
  const team = join(folder, project, "team");
  cpSync(join(ROOT, "create/template/team"), team, { recursive: true });
  writeFileSync(join(folder, project, "package.json"), JSON.stringify({ type: "module" }));
  mkdirSync(join(folder, project, "node_modules"));
  symlinkSync(ROOT, join(folder, project, "node_modules/mgrpo"), "junction");
  symlinkSync(join(ROOT, "node_modules/zod"), join(folder, project, "node_modules/zod"), "junction");
  return team;
}

test("an exception in tools() while base models are made names the recipe's file, whatever the recipe's name is", async () => {
  const team = createdTeam("renamed");
  const recipe = join(team, "recipe.ts");
  writeFileSync(recipe, readFileSync(recipe, "utf8").replace('name: "team"', 'name: "village"'));
  const tools = readFileSync(join(team, "tools.ts"), "utf8").replace(
    /export const tools.*/,
    "export const tools = async () => { throw new Error(lookup.name); };",
  );
  writeFileSync(join(team, "tools.ts"), tools);
  const { code, stderr } = await mgrpo(folder, "pretrain", team);
  expect(stderr).toMatch(/^mgrpo: \S+renamed\/team\/tools\.ts: tools\(\) threw Error: lookup .* \[recipe-invalid\]\n$/);
  expect(code).toBe(1);
});

test("train makes no base models for a run whose name is taken", async () => {
  const team = createdTeam("named");
  mkdirSync(join(folder, "runs/taken"), { recursive: true });
  writeFileSync(join(folder, "runs/taken/config.json"), "{}");
  const { code, stderr } = await mgrpo(folder, "train", team, "--run", "taken");
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^mgrpo: run 'taken' exists at .*\n$/)]);
  expect(existsSync(join(team, "models"))).toBe(false);
});

test("compare makes the base models that the recipe describes, once nothing else keeps its runs from starting", async () => {
  const team = createdTeam("project");
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

test("ask names the command that makes a recipe's base models, if they are not made yet", async () => {
  const team = createdTeam("unmade");
  const { code, stderr } = await mgrpo(folder, "ask", "Who?", "--team", team);
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/models\/main has no model yet: .* pretrain \S*\/team \[not-found\]\n$/),
  ]);
});

test("train makes no base models if its questions cannot be read", async () => {
  const team = createdTeam("without-questions");
  const set = 'questions={"train":"absent.jsonl","heldOut":"recipe"}';
  const { code, stderr } = await mgrpo(folder, "train", team, "--set", set);
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^mgrpo: .*absent\.jsonl.*\n$/)]);
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
