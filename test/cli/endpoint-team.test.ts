/** @file A model behind an API as a team: the settings that make agents use it. */
import { expect, test } from "vitest";
import { endpointSettings, parseEndpointTeam } from "../../cli/endpoint-team.ts";
import { withSettings } from "../../core/training/resolve-config.ts";

test.each(["7", "null", '{"a": 1}'])("a model's name stays text, even if it is JSON: %s", (model) => {
  const policy = "openai:http://127.0.0.1:1/v1";
  const team = parseEndpointTeam(`${policy}#${model}`) ?? expect.fail();
  const agent = { policy, model, trained: false };
  expect(withSettings({}, endpointSettings(team, ["main", "searcher"]))).toEqual({
    agents: { main: agent, searcher: agent },
  });
});
