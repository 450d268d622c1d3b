/** @file A launch is refused if its judge, its tools, an agent behind an API or its app needs a key that the deployment does not have. */
import { expect, test } from "vitest";
import { refuseKeylessJudge, refuseKeylessWorkers } from "../../cli/deployment-keys.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { Deployment } from "../../core/contracts/deployment.ts";

const fleetOf = (agent: string, roles: ("rollout" | "train" | "eval")[]) => ({
  ...{ name: agent, agent, roles },
  group: "g",
  max: 1,
  release: "r",
});
const deployment = {
  ...{ bucket: "b", release: "r", clockRule: "c" },
  fleets: [fleetOf("main", ["rollout", "train"]), fleetOf("searcher", ["rollout", "train"])],
} satisfies Deployment;
const agents = { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s", tools: ["search"] } };
const config = RunConfig.parse({ run: "r", recipe: "atlas", steps: 1, agents });

test("a judge whose key a deployment does not have is refused at launch, if functions or instances ask it", () => {
  const judgedBy = (model: unknown, suites: object[] = []) =>
    RunConfig.parse({ ...config, judge: { model }, evaluation: { suites } });
  const line = /judge.model: a deployment has the judge's key in MGRPO_JUDGE_KEY only/;
  const named = (keyVariable: string) => ({ provider: "openai", model: "m", keyVariable });
  for (const model of ["openai#m", "bedrock:eu-central-1#m", named("OPENROUTER_API_KEY")]) {
    expect(() => refuseKeylessJudge(judgedBy(model), deployment, true)).toThrow(line);
    refuseKeylessJudge(judgedBy(model), deployment, false);
  }
  for (const model of [named("MGRPO_JUDGE_KEY"), "openai:http://10.0.0.9:8000/v1#m"])
    refuseKeylessJudge(judgedBy(model), deployment, true);
  // Evaluations on the user's own machines use the keys there.
  const judged = judgedBy("openai#m", [{ name: "web", benchmark: "webwalkerqa", data: "w.json" }]);
  const evaluators: Deployment["fleets"] = [
    { name: "eval", agent: "*", roles: ["eval"], group: "g", max: 1, release: "r" },
  ];
  refuseKeylessJudge(judged, deployment, false);
  expect(() => refuseKeylessJudge(judged, { ...deployment, fleets: evaluators }, false)).toThrow(line);
});

const keyless = (variable: string) =>
  `a fleet's instances have no ${variable}: name MGRPO_SEARCH_KEY or MGRPO_MODEL_KEY instead, and set the secret SearchKey or ModelKey (docs/deploy.md)`;

test.each([
  [{ search: { backend: "serper" } }, `tools.search.keyVariable: ${keyless("SERPER_API_KEY")}`],
  [{ reason: { model: "openai#m" } }, `tools.reason.model: ${keyless("OPENAI_API_KEY")}`],
  [{ extract: { model: "bedrock:eu-central-1#m" } }, `tools.extract.model: ${keyless("AWS_BEARER_TOKEN_BEDROCK")}`],
  [
    { mcp: { far: { url: "https://far.example/mcp", headers: { Authorization: "FAR_KEY" } } } },
    `tools.mcp.far: ${keyless("FAR_KEY")}`,
  ],
])("tools with the settings %j are refused", (tools, message) => {
  const run = RunConfig.parse({ ...config, tools });
  expect(() => refuseKeylessWorkers(run, deployment)).toThrow(message);
  // Neither do workers on the user's own machines lack the key, nor do agents without tools need it.
  refuseKeylessWorkers(run, { ...deployment, fleets: [] });
  refuseKeylessWorkers(run, { ...deployment, fleets: [fleetOf("main", ["rollout", "train"])] });
});

test.each([
  {
    search: { backend: "serper", keyVariable: "MGRPO_SEARCH_KEY" },
    reason: { model: "openai:http://10.0.0.9:8000/v1#m" },
  },
  {
    search: { backend: "searxng", url: "http://10.0.0.9:8080" },
    mcp: { near: { command: "npx", environment: ["CI"] } },
  },
  { search: { backend: "serper" }, cache: { mode: "replay" } },
  { pages: "a recipe's own setting" },
])("tools with the settings %j are accepted", (tools) => {
  refuseKeylessWorkers(RunConfig.parse({ ...config, tools }), deployment);
});

test("an agent behind an API is refused if its fleet, or one that evaluates, lacks its key", () => {
  const behindApi = (endpoint: object) => {
    const searcher = { model: "gpt", policy: "openai", trained: false, endpoint };
    return RunConfig.parse({
      ...config,
      agents: { ...agents, searcher },
      evaluation: { suites: [{ name: "held-out" }] },
    });
  };
  const line = `agents.searcher.endpoint.keyVariable: ${keyless("OPENAI_API_KEY")}`;
  expect(() => refuseKeylessWorkers(behindApi({}), deployment)).toThrow(line);
  refuseKeylessWorkers(behindApi({ keyVariable: "MGRPO_MODEL_KEY" }), deployment);
  refuseKeylessWorkers(behindApi({}), { ...deployment, fleets: [fleetOf("main", ["rollout", "train"])] });
  expect(() => refuseKeylessWorkers(behindApi({}), { ...deployment, fleets: [fleetOf("*", ["eval"])] })).toThrow(line);
});

test("an app elsewhere is refused on a deployment with fleets", () => {
  const run = RunConfig.parse({
    ...{ ...config, runner: { url: "https://app.example/attempts" } },
    agents: { ...agents, searcher: { model: "s" } },
  });
  expect(() => refuseKeylessWorkers(run, deployment)).toThrow(
    /^runner\.url: a fleet's instances have no secret for an app/,
  );
  refuseKeylessWorkers(run, { ...deployment, fleets: [] });
});
