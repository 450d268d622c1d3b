/** @file Resolving the config of a team that an app runs: it has no tools, prompts or closed-book suites, whatever the recipe recommends. */
import { expect, test } from "vitest";
import type { Recipe } from "../../../core/recipe.ts";
import { resolveConfig } from "../../../core/training/resolve-config.ts";

const withTools: Recipe = {
  name: "tiny",
  config: () => ({
    steps: 4,
    agents: {
      main: { model: "m", delegates: ["searcher"], system: "Plan." },
      searcher: { model: "s", tools: ["search"] },
    },
    evaluation: { suites: [{ name: "test" }, { name: "closed-book", closedBook: true }] },
  }),
  questions: () => ({ train: [], heldOut: [] }),
};
const choice = { run: "r", seed: 3, arm: "mgrpo" } as const;

test("one setting switches a team between this program's loop and an app, which has its own tools and prompts", () => {
  const native = resolveConfig(withTools, choice);
  expect(native.agents["searcher"]?.tools).toEqual(["search"]);
  for (const set of [["runner=recipe"], ["runner.url=https://app.example/"]]) {
    const { agents, evaluation } = resolveConfig(withTools, { ...choice, set });
    expect(agents).toMatchObject({ main: { system: "", tools: [] }, searcher: { tools: [] } });
    expect(evaluation.suites.map(({ name }) => name)).toEqual(["test"]);
  }
  for (const evaluation of [{}, { evaluation: { every: 2 } }]) {
    const untested = { name: "alone", config: { steps: 1, agents: { main: { model: "m" } }, ...evaluation } };
    expect(resolveConfig(untested, { ...choice, set: ["runner=recipe"] }).evaluation.suites).toEqual([]);
  }
  const app = {
    ...withTools,
    config: () => ({ ...withTools.config("mgrpo", () => undefined), runner: "recipe" as const }),
  };
  expect(resolveConfig(app, choice).agents["searcher"]?.tools).toEqual([]);
  expect({ ...resolveConfig(app, { ...choice, set: ["runner=native"] }) }).toEqual(native);
});

test.each([
  ['agents.searcher.tools=["search"]', /agents\.searcher\.tools: an app runs the rollouts/],
  ["agents.main.system=Plan.", /agents\.main\.system: an app runs the rollouts/],
  ['evaluation.suites=[{"name":"blind","closedBook":true}]', /suite 'blind': the tools are the app's/],
])("with an app, --set %s is refused: it would be ignored", (setting, message) => {
  expect(() => resolveConfig(withTools, { ...choice, set: ["runner=recipe", setting] })).toThrow(message);
});
