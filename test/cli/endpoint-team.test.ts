/** @file A model behind an API as a team: the settings that make agents use it, and the settings of a recipe that are dropped. */
import { expect, test } from "vitest";
import { endpointSettings, parseEndpointTeam, withoutLocalSettings } from "../../cli/endpoint-team.ts";
import { planEvaluation } from "../../cli/evaluation-config.ts";
import type { Recipe } from "../../core/recipe.ts";
import { resolveConfig, withSettings } from "../../core/training/resolve-config.ts";

test.each(["7", "null", '{"a": 1}'])("a model's name stays text, even if it is JSON: %s", (model) => {
  const policy = "openai:http://127.0.0.1:1/v1";
  const team = parseEndpointTeam(`${policy}#${model}`) ?? expect.fail();
  const agent = { policy, model, trained: false };
  expect(withSettings({}, endpointSettings(team, ["main", "searcher"]))).toEqual({
    agents: { main: agent, searcher: agent },
  });
});

test.each(["single-agent", "mgrpo"] as const)(
  "it is accepted in arm %s of a recipe whose own models have adapters",
  async (arm) => {
    const { config } = await planEvaluation("openai:http://x/v1#m", { recipe: "gazetteer", arm, set: [] });
    for (const agent of Object.values(config.agents))
      expect(agent).toMatchObject({ model: "m", lora: null, toolPrompt: "auto", trained: false });
    expect(config.agents["main"]?.limits.turnTokens).toBe(64);
  },
);

test("a recipe's settings for models that run here are dropped, and its other settings stay", () => {
  const local = { lora: {}, toolPrompt: "user", thinking: false, share: 2 } as const;
  const engine = { slots: 7, quantization: "int8", threads: 2, dedicated: true } as const;
  const limits = { turns: 3, responseTokens: 100 };
  const main = { model: "local", system: "Answer.", ...local, engine, limits };
  const recipe: Recipe = {
    name: "own",
    config: () => ({ steps: 1, agents: { main } }),
    questions: () => ({ train: [], heldOut: [] }),
  };
  const set = endpointSettings({ policy: "openai", model: "m" }, ["main"]);
  const choice = { run: "r", recipe: "own", seed: 1, arm: "mgrpo", set } as const;
  expect(() => resolveConfig(recipe, choice)).toThrow("agents.main.lora");
  const { agents } = resolveConfig(withoutLocalSettings(recipe), choice);
  expect(agents["main"]).toMatchObject({ system: "Answer.", engine: { slots: 7, threads: 1 }, limits: { turns: 3 } });
});
