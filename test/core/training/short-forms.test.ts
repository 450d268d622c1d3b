/** @file Settings of a model behind an API or of a server's optimizer, after the short form that names it. */
import { expect, test } from "vitest";
import { resolveConfig } from "../../../core/training/resolve-config.ts";

const server = { policy: "tinker:http://127.0.0.1:8000", model: "m" };
const choice = { run: "r", seed: 1, arm: "mgrpo" } as const;
const resolve = (config: object, ...set: string[]) =>
  resolveConfig({ name: "tiny", config: { steps: 1, agents: { main: server }, ...config } }, { ...choice, set });

test("a setting changes a part of what a short form names, whether --set or the recipe has the short form", () => {
  const model = { provider: "openai", model: "gpt-5-mini", json: "text", timeoutSeconds: 30 };
  const parts = ["judge.model.json=text", "judge.model.timeoutSeconds=30"];
  const short = "openai#gpt-5-mini";
  expect(resolve({}, `judge.model=${short}`, ...parts).judge?.model).toMatchObject(model);
  expect(resolve({ judge: { model: short } }, ...parts).judge?.model).toMatchObject(model);
  const tools = resolve({}, `tools.reason.model=${short}`, "tools.reason.model.keyVariable=REASON_KEY").tools;
  expect(tools).toMatchObject({ reason: { model: { model: "gpt-5-mini", keyVariable: "REASON_KEY" } } });
  const optimizer = { kind: "server", learningRate: 1e-5, schedule: "linear" };
  const rate = "agents.main.optimizer.learningRate=1e-5";
  expect(resolve({}, "agents.main.optimizer=server", rate).agents["main"]?.optimizer).toMatchObject(optimizer);
  const recommended = { agents: { main: { ...server, optimizer: "server" } } };
  expect(resolve(recommended, rate).agents["main"]?.optimizer).toMatchObject(optimizer);
});

test.each([
  ["judge.model=gpt-5-mini", "judge.model.json=text", "'model' is a value and has no 'json'"],
  ["runner=openai#gpt-5-mini", "runner.url=http://127.0.0.1:1", "'runner' is a value and has no 'url'"],
  ["agents.main.engine=server", "agents.main.engine.slots=8", "'engine' is a value and has no 'slots'"],
])("a text that is no short form of its setting has no parts to set: %s", (text, part, fault) => {
  expect(() => resolve({}, text, part)).toThrow(`--set ${part}: ${fault}`);
});
