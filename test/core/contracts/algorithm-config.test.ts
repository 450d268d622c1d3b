/**
 * @file Settings of the algorithm, and an agent's temperature and optimizer: contradictions are refused, with what to write instead; an agent's
 * own settings override the run's.
 */
import { expect, test } from "vitest";
import { AlgorithmConfig } from "../../../core/contracts/algorithm-config.ts";
import { algorithmOf } from "../../../core/contracts/algorithm-overrides.ts";
import { RunConfig } from "../../../core/contracts/config.ts";

const faultsOf = (algorithm: object, rest: object = {}): string[] => {
  const agents = { main: { model: "m", delegates: ["sub"] }, sub: { model: "s" } };
  const result = RunConfig.safeParse({ run: "r", recipe: "atlas", seed: 1, steps: 2, agents, algorithm, ...rest });
  return (result.error?.issues ?? []).map(({ path, message }) => `${path.join(".")}: ${message}`);
};

test.each<[object, RegExp]>([
  [
    { policyLoss: { kind: "cispo" }, ratio: "sequence" },
    /^algorithm\.policyLoss: cispo weights each token of 'main' by its own ratio, not by 'sequence': set ratio to token$/,
  ],
  [
    { overlongPenalty: { bufferTokens: 512 } },
    /^algorithm\.overlongPenalty\.bufferTokens: agents\.main\.limits\.contextTokens is 512: set less than that/,
  ],
  [{ kl: { refreshEvery: 5 } }, /^algorithm\.kl\.refreshEvery: does nothing at kl\.coefficient 0/],
  [{ kl: { in: "reward" } }, /^algorithm\.kl\.in: does nothing at kl\.coefficient 0/],
  [
    { kl: { in: "reward", coefficient: 0.1 } },
    /^algorithm\.kl\.estimator: as a reward, k3 gives a biased gradient .* set it to k1$/,
  ],
  [
    { kl: { refreshEvery: 1, coefficient: 0.1 } },
    /^algorithm\.kl\.refreshEvery: with one optimizer step per batch, the reference is the version that is trained/,
  ],
  [
    { kl: { in: "reward", refreshEvery: 1, coefficient: 0.1, estimator: "k1" }, minibatches: 2 },
    /^algorithm\.kl\.refreshEvery: in the reward, the penalty is that of the version before the step, which is the reference/,
  ],
  [
    { turnWeight: 1, ratio: "sequence" },
    /^algorithm\.turnWeight: ratio 'sequence' spreads each turn's advantage over all tokens of 'main': set ratio to token, or turnWeight to 0$/,
  ],
  [
    { kl: { in: "reward", coefficient: 0.1, estimator: "k1" }, ratio: "sequence-mean" },
    /^algorithm\.kl\.in: ratio 'sequence-mean' spreads each token's penalty over all tokens of 'main': set ratio to token, or kl\.in to loss$/,
  ],
  [
    { turnWeight: 1, shuffleAdvantages: true },
    /^algorithm\.turnWeight: the control would learn from turn rewards, which are not shuffled: set it to 0$/,
  ],
  [
    { ratioMask: { low: 2, high: 0.5 } },
    /^algorithm\.ratioMask: it masks a ratio of 1, .*: set low \(2\) to at most 1, and high \(0\.5\) to at least 1$/,
  ],
  [{ ratioMask: { low: 1.1, high: 2 } }, /^algorithm\.ratioMask: it masks a ratio of 1/],
  [{ tisCap: 0.5 }, /^algorithm\.tisCap: Too small/],
  [{ policyLoss: { kind: "dual-clip", c: 1 } }, /^algorithm\.policyLoss\.c: Too small/],
  [{ policyLoss: { kind: "clip", c: 3 } }, /^algorithm\.policyLoss: Unrecognized key: "c"/],
])("%o is refused", (algorithm, message) => {
  expect(faultsOf(algorithm)[0]).toMatch(message);
});

test.each<object>([
  {},
  { policyLoss: { kind: "cispo" } },
  { policyLoss: { kind: "dual-clip" } },
  { kl: { in: "reward", coefficient: 0.1, estimator: "k1" } },
  { kl: { refreshEvery: 1, coefficient: 0.1 }, minibatches: 2 },
  { turnWeight: 0.5, advantageScale: "batch" },
  { overlongPenalty: { bufferTokens: 99 } },
])("%o is accepted", (algorithm) => {
  expect(faultsOf(algorithm)).toEqual([]);
});

test("a weight of a reward can be set alone, and the others keep the paper's values; an agent's own reward needs all its weights", () => {
  const { mainReward, subReward } = AlgorithmConfig.parse({ mainReward: { correct: 1 }, subReward: { expert: 0 } });
  expect({ mainReward, subReward }).toEqual({
    mainReward: { format: 0.1, correct: 1 },
    subReward: { format: 0.1, correct: 0.4, expert: 0 },
  });
  const agents = {
    main: { model: "m", delegates: ["sub"] },
    sub: { model: "s", algorithm: { subReward: { expert: 0 } } },
  };
  expect(faultsOf({}, { agents })).toEqual([
    expect.stringMatching(/^agents.sub.algorithm.subReward.format: .*undefined$/),
    expect.stringMatching(/^agents.sub.algorithm.subReward.correct: .*undefined$/),
  ]);
});

test("an entropy bonus is refused for a trained agent on a Tinker server", () => {
  const agents = (trained: boolean) => ({
    main: { model: "m", policy: "tinker:http://gpu1:8000", trained, delegates: ["sub"] },
    sub: { model: "s" },
  });
  const entropy = { start: 0.01, end: 0 };
  expect(faultsOf({ entropy }, { agents: agents(true) })).toEqual([
    "algorithm.entropy: agent 'main' is on a Tinker server, which returns no entropies to train on: set it to null",
  ]);
  expect(faultsOf({ entropy }, { agents: agents(false) })).toEqual([]);
});

test("turn rewards are refused with an app, whose branches have no turns", () => {
  const agents = { main: { model: "m", delegates: ["sub"] }, sub: { model: "s", algorithm: { turnWeight: 1 } } };
  expect(faultsOf({}, { runner: "recipe", agents })).toEqual([
    "agents.sub.algorithm.turnWeight: an app runs the rollouts (runner), and its branches have no turns to reward: set it to 0",
  ]);
  // Both agents have the run's value, which is reported once.
  expect(faultsOf({ turnWeight: 1 }, { runner: "recipe" })).toEqual([
    "algorithm.turnWeight: an app runs the rollouts (runner), and its branches have no turns to reward: set it to 0",
  ]);
});

test("an agent's own settings override the run's; overriding only d keeps the mode", () => {
  const config = RunConfig.parse({
    ...{ run: "r", recipe: "atlas", seed: 1, steps: 2, algorithm: { clipHigh: 0.3, tisCap: 2, alignment: { d: 3 } } },
    agents: {
      main: { model: "m", delegates: ["sub"], algorithm: { clipLow: 0.1, tisCap: null } },
      sub: { model: "s", algorithm: { alignment: { d: 5 }, policyLoss: { kind: "cispo" } } },
    },
  });
  const of = (name: string) => algorithmOf(config, name);
  expect(of("main")).toEqual({ ...config.algorithm, clipLow: 0.1, tisCap: null });
  expect(of("sub")).toEqual({
    ...config.algorithm,
    alignment: { mode: "resample", d: 5 },
    policyLoss: { kind: "cispo" },
  });
});

test.each<[object, object, string]>([
  [
    { subReward: { format: 0, correct: 1, expert: 0 } },
    {},
    "agents.main.algorithm.subReward: does nothing for the main",
  ],
  [{ alignment: { d: 2 } }, {}, "agents.main.algorithm.alignment: the main agent is not aligned: remove it"],
  [{}, { mainReward: { format: 0, correct: 1 } }, "agents.sub.algorithm.mainReward: does nothing for a sub-agent"],
  [
    { policyLoss: { kind: "cispo" }, ratio: "sequence" },
    {},
    "agents.main.algorithm.policyLoss: cispo weights each token",
  ],
  [
    { overlongPenalty: { bufferTokens: 600 } },
    {},
    "agents.main.algorithm.overlongPenalty.bufferTokens: agents.main.li",
  ],
  [{ epochs: 2 }, {}, 'agents.main.algorithm: Unrecognized key: "epochs"'],
])("overrides %o of main and %o of sub are refused", (main, sub, message) => {
  const agents = { main: { model: "m", delegates: ["sub"], algorithm: main }, sub: { model: "s", algorithm: sub } };
  const faults = faultsOf({}, { agents });
  expect(faults).toHaveLength(1);
  expect(faults[0]).toContain(message);
});

test("an agent on a Tinker server may have temperature 1, its own or the run's, and no other", () => {
  const agents = (temperature: object) => ({
    main: { model: "m", policy: "tinker:http://gpu1:8000", delegates: ["sub"], ...temperature },
    sub: { model: "s" },
  });
  expect(faultsOf({}, { temperature: 0.8, agents: agents({ temperature: 1 }) })).toEqual([]);
  expect(faultsOf({}, { agents: agents({ temperature: 0.8 }) })[0]).toMatch(
    /^agents\.main\.temperature: .* set it to 1$/,
  );
  expect(faultsOf({}, { temperature: 0.8, agents: agents({}) })[0]).toMatch(/^temperature: .* set it to 1$/);
});

const faultsWithMain = (main: object) =>
  faultsOf({}, { agents: { main: { model: "m", delegates: ["sub"], ...main }, sub: { model: "s" } } });

test.each<[object, RegExp | undefined]>([
  [{ optimizer: { decayed: "matrices", weightDecay: 0.1 } }, undefined],
  [{ optimizer: { decayed: "matrices" } }, /^agents\.main\.optimizer\.decayed: has no effect while weightDecay is 0/],
  [
    { lora: {}, optimizer: { decayed: "matrices", weightDecay: 0.1 } },
    /decayed: an adapter has neither norms nor biases/,
  ],
  [
    { policy: "tinker:http://gpu1:8000", optimizer: { decayed: "matrices" } },
    /^agents\.main\.optimizer\.decayed: a Tinker server has no setting for which weights decay: remove decayed$/,
  ],
  [{ policy: "tinker:http://gpu1:8000", optimizer: { weightDecay: 0.1 } }, undefined],
  [
    { policy: "tinker:http://gpu1:8000", optimizer: { kind: "server", decayed: "matrices" } },
    /^agents\.main\.optimizer: Unrecognized key: "decayed"/,
  ],
  [
    { policy: "tinker:http://gpu1:8000", optimizer: { kind: "server", schedule: "cosine", warmupRatio: 0.1 } },
    undefined,
  ],
])("the fault in the optimizer of %o is %s", (main, message) => {
  expect(faultsWithMain(main)).toEqual(message ? [expect.stringMatching(message)] : []);
});
