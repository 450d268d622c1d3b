/** @file Which addresses of models are refused, which are accepted, and which are OpenAI's own; limits in tokens behind an API. */
import { expect, test } from "vitest";
import { RunConfig } from "../../../core/contracts/config.ts";
import { endpointFaults, isOpenAi, LanguageModelSpec } from "../../../core/contracts/language-model.ts";

test.each([
  ["openai:http://host/v1?#m", /without user, query or fragment/],
  [{ provider: "openai", model: "m", baseUrl: "http://host/v1#" }, /without user, query or fragment/],
  // The variable that should have held the address is empty: the request must not go elsewhere.
  ["openai:#m", /write openai:<base url>#<model>, openai#<model>/],
  ["bedrock:#m", /or bedrock\[:<region>\]#<model>/],
] as const)("%j is refused as a model", (spec, message) => {
  expect(LanguageModelSpec.safeParse(spec).error?.issues[0]?.message).toMatch(message);
});

test.each([
  ["openai:", /no base URL is given: write openai:<base url>, or openai for OpenAI's own server/],
  ["openai:http://host/v1?", /without user, query or fragment/],
  ["bedrock:", /no region is given: write bedrock:<region>/],
  ["bedrock", /no region is given: write bedrock:<region>/],
])("%s is refused as an agent's policy", (policy, message) => {
  expect(endpointFaults({ policy, model: "m", trained: false, limits: {} })).toEqual([
    [["policy"], expect.stringMatching(message)],
  ]);
});

test("a limit in tokens is refused for an agent behind an API; the fault has the limit's path", () => {
  const agent = { policy: "openai", model: "m", trained: false, limits: { responseTokens: 100 } };
  expect(endpointFaults(agent)).toEqual([
    [["limits", "responseTokens"], "only its server can count its tokens: set responseCharacters instead"],
  ]);
});

test("an invalid variable for the key is reported once, and not as a fault of the policy", () => {
  const endpoint = { keyVariable: "sk-123" };
  const agents = { main: { policy: "openai", model: "m", trained: false, endpoint } };
  const { error } = RunConfig.safeParse({ run: "r", recipe: "any", steps: 1, agents });
  expect(error?.issues.map(({ path }) => path.join("."))).toEqual(["agents.main.endpoint.keyVariable"]);
});

test.each(["openai", "openai:http://host/v1", "bedrock:eu-central-1"])("%s is accepted as a policy", (policy) => {
  expect(endpointFaults({ policy, model: "m", trained: false, limits: {} })).toEqual([]);
});

test("OpenAI's own server is recognized with a trailing slash and in a region; over plain http it is not, nor is another host", () => {
  const own = ["https://api.openai.com/v1", "https://api.openai.com/v1/", "https://eu.api.openai.com/v1"];
  const others = ["http://api.openai.com/v1", "https://api.openai.com.example/v1", "https://xapi.openai.com/v1"];
  expect(own.filter(isOpenAi)).toEqual(own);
  expect(others.filter(isOpenAi)).toEqual([]);
});
