/** @file The settings of an evaluation: those that it reads, and those that are refused since it would ignore them. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { evaluateOrWatch } from "../../cli/eval.ts";
import { planEvaluation } from "../../cli/evaluation-config.ts";
import { projectOfFile, RELAY } from "./command-line.ts";

const folder = projectOfFile();

test("--set is refused for suites that --suite does not evaluate, and applies to the one that it evaluates", async () => {
  const plan = (recipe: string, name: string, ...set: string[]) =>
    planEvaluation(join(folder, "models"), { recipe, set }, { name });
  const suites = 'evaluation.suites=[{"name":"a"},{"name":"b"}]';
  const first = "evaluation.suites.0.temperature=0";
  const refused = (setting: string, name: string) =>
    `--set ${setting} does not change --suite ${name}, the only suite that is evaluated: leave out one of the two`;
  await expect(plan("atlas", "atlas", first)).rejects.toThrow(refused(first, "atlas"));
  await expect(plan(RELAY, "relay", suites)).rejects.toThrow(refused(suites, "relay"));
  const all = 'evaluation={"suites":[{"name":"a"}]}';
  await expect(plan(RELAY, "relay", all)).rejects.toThrow(refused(all, "relay"));
  await expect(plan(RELAY, "b", suites, first)).rejects.toThrow(refused(first, "b"));
  const { config } = await plan(RELAY, "b", suites, "evaluation.suites.1.temperature=0");
  expect(config.evaluation.suites).toMatchObject([{ name: "b", temperature: 0 }]);
});

test("a team file without suites is evaluated on those of its recipe, whose settings --set can change", async () => {
  const team = join(folder, "without-suites.json");
  const plan = (set: string[], ...suite: { name: string }[]) => planEvaluation(team, { set }, ...suite);
  const agents = { main: { model: "models/main", policy: "recipe:relay" } };
  const withEvaluation = (evaluation?: object) =>
    writeFileSync(team, JSON.stringify({ recipe: "tally", agents, ...(evaluation && { evaluation }) }));
  withEvaluation();
  const suites = (await plan([])).config.evaluation.suites.map(({ name }) => name);
  expect(suites.length).toBeGreaterThan(1);
  const [first = ""] = suites;
  const { config } = await plan(["evaluation.suites.0.questions=7"], { name: first });
  expect(config.evaluation.suites).toMatchObject([{ name: first, questions: 7 }]);
  withEvaluation({ suites: [{ name: "own" }] });
  expect((await plan([])).config.evaluation.suites).toMatchObject([{ name: "own" }]);
});

test("a team file with training questions alone does not get its recipe's suites, but can be evaluated on a suite from the command line", async () => {
  const team = join(folder, "with-questions.json");
  const agents = { main: { model: "models/main", policy: "recipe:relay" } };
  writeFileSync(team, JSON.stringify({ recipe: "tally", agents, questions: { train: "train.jsonl" } }));
  await expect(planEvaluation(team, { set: [] })).rejects.toThrow(/has no evaluation\.suites: add one/);
  const { config } = await planEvaluation(team, { set: [] }, { name: "own.jsonl" });
  expect(config.evaluation.suites).toMatchObject([{ benchmark: "jsonl", data: "own.jsonl" }]);
});

test("--judge names the judge's model, and --set changes the settings of that model", async () => {
  const plan = (judge: string, ...set: string[]) =>
    planEvaluation(join(folder, "models"), { recipe: RELAY, judge, set }, { name: "relay" });
  const { config } = await plan("openai#gpt-5-mini", "judge.model.timeoutSeconds=30", "judge.votes=3");
  const model = { provider: "openai", model: "gpt-5-mini", timeoutSeconds: 30, json: "schema" };
  expect(config.judge).toMatchObject({ model, votes: 3 });
  const asJson = await plan('{"provider":"openai","model":"m"}', "judge.model.timeoutSeconds=30");
  expect(asJson.config.judge).toMatchObject({ model: { model: "m", timeoutSeconds: 30 } });
  for (const set of [[], ["judge.model.timeoutSeconds=30"]])
    await expect(plan("gpt-5-mini", ...set)).rejects.toThrow(
      "judge.model: write openai:<base url>#<model>, openai#<model>",
    );
});

test("settings that only training reads are refused; for a temperature, the error names the setting of the suite", async () => {
  const plan = (setting: string) => planEvaluation(join(folder, "models"), { recipe: RELAY, set: [setting] });
  for (const setting of ["temperature=0.5", "agents.main.temperature=0.5"])
    await expect(plan(setting)).rejects.toThrow(
      `--set ${setting} changes only training: leave it out; a suite has its own (evaluation.suites.0.temperature)`,
    );
  const ofAgents = ["agents.main.optimizer.learningRate=1", "agents.main.share=2", "agents.main.workers=2"];
  const others = [
    "staleness=1",
    "curriculum=[]",
    "steps=9",
    "track=[]",
    "evaluation.every=4",
    ...ofAgents,
    "limits.lostFraction=1",
  ];
  for (const setting of others)
    await expect(plan(setting)).rejects.toThrow(`--set ${setting} changes only training: leave it out`);
});

test.each([
  ['evaluation={"every":8}', "evaluation.every"],
  ['agents.main={"optimizer":{"learningRate":1}}', "agents.main.optimizer"],
  ['agents={"main":{"share":2}}', "agents.main.share"],
])("a setting that only training reads is refused in JSON too: %s", async (setting, path) => {
  await expect(planEvaluation(join(folder, "models"), { recipe: RELAY, set: [setting] })).rejects.toThrow(
    `--set ${setting}: ${path} changes only training: leave it out`,
  );
});

test("a suite that skips all of its questions is refused, also among the suites of a team and in a watch", async () => {
  const set = ['evaluation.suites=[{"name":"all"},{"name":"rest","skip":1000}]'];
  const refused = /^suite 'rest' asks nothing: it skips 1000, and its set has \d+ questions?: lower skip$/;
  await expect(evaluateOrWatch(join(folder, "models"), { recipe: RELAY, set })).rejects.toThrow(refused);
  const team = join(folder, "skipping.json");
  writeFileSync(team, JSON.stringify({ recipe: RELAY, agent: "main", models: { searcher: "models/searcher" }, set }));
  await expect(evaluateOrWatch(undefined, { watch: folder, team, set: [] })).rejects.toThrow(refused);
});

test("an agent has its checkpoint as model, unless --set names another one", async () => {
  const models = join(folder, "models");
  const set = ["agents.main.model=elsewhere"];
  const { config } = await planEvaluation(models, { recipe: RELAY, set }, { name: "relay" });
  expect([config.agents["main"]?.model, config.agents["searcher"]?.model]).toEqual([
    "elsewhere",
    join(models, "searcher"),
  ]);
});

test("the error for a recipe's invalid suites names the recipe, even if the team has a config of its own", async () => {
  const recipe = join(folder, "invalid-suites");
  mkdirSync(recipe);
  const relay = JSON.stringify(join(RELAY, "recipe.js"));
  const config = '(...given) => ({ ...relay.config(...given), evaluation: { suites: [{ name: "not a name" }] } })';
  writeFileSync(
    join(recipe, "recipe.mjs"),
    `import { recipe as relay } from ${relay};\nexport const recipe = { ...relay, config: ${config} };\n`,
  );
  for (const part of ["rewards", "tools"])
    writeFileSync(join(recipe, `${part}.mjs`), `export * from ${JSON.stringify(join(RELAY, `${part}.js`))};\n`);
  const team = join(folder, "team.json");
  const agents = { main: { model: "models/main" } };
  writeFileSync(team, JSON.stringify({ recipe, agents, evaluation: { suites: [{ name: "a" }] } }));
  await expect(planEvaluation(team, { set: [] }, { name: "a" })).rejects.toMatchObject({
    code: "config-invalid",
    message: expect.stringMatching(/^evaluation\.suites of recipe '.*invalid-suites': 0\.name: /),
  });
});
