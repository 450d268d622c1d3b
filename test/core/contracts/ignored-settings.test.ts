/** @file Settings that nothing would read or that may do harm, and credentials in a URL, are refused for a new run; a stored config that has them still parses. */
import { expect, test } from "vitest";
import { RunConfig } from "../../../core/contracts/config.ts";
import { IGNORED_SETTINGS, ignoredSettings } from "../../../core/contracts/ignored-settings.ts";
import { parseJson } from "../../../core/contracts/parse.ts";

/** The config of a main agent and a searcher. `settings`: of the run. `searcher`: of the searcher. */
const configWith = (settings: object, searcher: object = {}): RunConfig =>
  RunConfig.parse({
    ...{ run: "r", recipe: "atlas", steps: 2, ...settings },
    agents: { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s", ...searcher } },
  });
const pathsIn = (config: RunConfig) => ignoredSettings(config).map(([path]) => path);
const threads = { engine: { threads: 4 } };
const tinker = { policy: "tinker:http://gpu1:8000", lora: {} };

interface Rule {
  readonly path: string;
  readonly refused: readonly RunConfig[];
  readonly accepted: readonly RunConfig[];
}

const algorithm = (settings: object) => configWith({ algorithm: settings });
const RULES: Record<string, Rule> = {
  constantTokens: {
    path: "algorithm.constantTokens",
    refused: [algorithm({ constantTokens: 100 }), algorithm({ constantTokens: 100, aggregation: "token-mean" })],
    accepted: [algorithm({ constantTokens: 100, aggregation: "constant" })],
  },
  klEstimator: {
    path: "algorithm.kl.estimator",
    refused: [algorithm({ kl: { estimator: "k1" } }), algorithm({ kl: { estimator: "k2" } })],
    accepted: [
      algorithm({ kl: { estimator: "k1", coefficient: 0.01 } }),
      algorithm({ kl: { estimator: "k1", coefficient: 0.01, in: "reward" } }),
    ],
  },
  epsilon: {
    path: "algorithm.epsilon",
    refused: [algorithm({ epsilon: 0.1, advantageScale: "none" })],
    accepted: [algorithm({ epsilon: 0.1 }), algorithm({ epsilon: 0.1, advantageScale: "batch" })],
  },
  threads: {
    path: "agents.searcher.engine.threads",
    refused: [
      configWith({}, { ...threads, policy: "eager" }),
      configWith({}, { ...threads, policy: "eager-gpu" }),
      configWith({}, { ...threads, policy: "openai", trained: false }),
      configWith({}, { ...threads, policy: "bedrock:eu-central-1", trained: false }),
    ],
    accepted: [configWith({}, threads), configWith({}, { ...threads, policy: "recipe:own" })],
  },
  tinkerWeightDecay: {
    path: "agents.searcher.optimizer.weightDecay",
    refused: [configWith({}, { ...tinker, optimizer: { weightDecay: 0.1 } })],
    accepted: [
      configWith({}, { ...tinker, optimizer: { weightDecay: 0 } }),
      configWith({}, { ...tinker, optimizer: { kind: "server" } }),
      configWith({}, { optimizer: { weightDecay: 0.1 } }),
    ],
  },
  runnerCredentials: {
    path: "runner.url",
    refused: ["me:secret", "me", ":secret"].map((user) =>
      configWith({ runner: { url: `https://${user}@app.example/attempts` } }),
    ),
    accepted: [configWith({ runner: { url: "https://app.example/attempts" } }), configWith({ runner: "recipe" })],
  },
};

test("every rule has cases here", () => {
  expect(Object.keys(RULES)).toEqual(Object.keys(IGNORED_SETTINGS));
});

test.each(Object.entries(RULES))(
  "%s: refused in each config of `refused`, and in none of `accepted`",
  (_name, { path, refused, accepted }) => {
    for (const config of refused) expect(pathsIn(config)).toEqual([path]);
    for (const config of accepted) expect(pathsIn(config)).toEqual([]);
  },
);

test("a setting at its default is never refused, since it may not have been chosen", () => {
  expect(pathsIn(configWith({}, { policy: "eager" }))).toEqual([]);
  expect(pathsIn(algorithm({ advantageScale: "none", aggregation: "token-mean", constantTokens: 256 }))).toEqual([]);
});

test("a setting that an arm turns off is not refused, since all arms of a comparison get it", () => {
  expect(pathsIn(algorithm({ alignment: { mode: "none", d: 8 } }))).toEqual([]);
  expect(pathsIn(configWith({}, { trained: false, optimizer: { learningRate: 1 } }))).toEqual([]);
});

test("an agent that shares a policy inherits its owner's threads, which are refused once", () => {
  const main = { model: "m", policy: "eager", delegates: ["searcher"], ...threads };
  const shared = RunConfig.parse({
    ...{ run: "r", recipe: "atlas", steps: 2 },
    agents: { main, searcher: { policy: "of:main" } },
  });
  expect(pathsIn(shared)).toEqual(["agents.main.engine.threads"]);
});

test("a message says what to write instead", () => {
  const faults = ignoredSettings(algorithm({ constantTokens: 100, kl: { estimator: "k2" } }));
  expect(faults.map(([, message]) => message)).toEqual([
    "does nothing under aggregation trajectory-mean: remove it, or set aggregation to constant",
    "does nothing at kl.coefficient 0: remove it, or set kl.coefficient",
  ]);
});

test("a stored config with such settings is still read, unchanged", () => {
  for (const { refused } of Object.values(RULES)) {
    for (const config of refused) expect(parseJson(RunConfig, JSON.stringify(config), "config.json")).toEqual(config);
  }
});
