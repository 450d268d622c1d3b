/**
 * @file Training and sampling through a server give the local engine's numbers, whether the server sums or averages the loss. Settings
 * that a server would ignore or get wrong are refused in one line. Also: lost and unloaded models, the name of the base model, and the files of
 * a version.
 */
import { expect, test } from "vitest";
import { OptimizerConfig } from "../../../core/contracts/agent-config.ts";
import { AlgorithmConfig } from "../../../core/contracts/algorithm-config.ts";
import { LoraConfig, supportsLora } from "../../../core/contracts/lora.ts";
import type { Trajectory } from "../../../core/contracts/rollout.ts";
import { tinkerFaults } from "../../../core/contracts/tinker-policy.ts";
import { tokenWeights } from "../../../core/mgrpo/batch.ts";
import type { CheckpointFiles, PolicyEngine, Sampler, Trainer } from "../../../core/ports.ts";
import { stream } from "../../../core/random.ts";
import { readTinkerVersion, tinkerBase } from "../../../engine/tinker/version.ts";
import { type TrainingEntry, trainStep } from "../../../gpu-workers/training/train-step.ts";
import { bigramEngine, bigramFiles } from "../../fakes/bigram-engine.ts";
import { HOSTED, SKYRL_JAX, type TinkerRules } from "../../fakes/tinker-models.ts";
import { trainAlone } from "../../gpu-workers/train-alone.ts";
import { OPTIONS } from "../tiny.ts";
import { errorOf, POLICY, tinyTinker } from "./tiny-tinker.ts";

const files = bigramFiles(30);
const tiny = (rules: TinkerRules = HOSTED) => tinyTinker({ engine: bigramEngine, files, options: OPTIONS, rules });

/** Six rollouts in two groups, sampled from a version; a rollout's advantage depends on its length and index. */
async function rollOut(
  sampler: Sampler,
  version: number,
  algorithm: AlgorithmConfig,
  isWire: boolean,
): Promise<TrainingEntry[]> {
  const entries = await Promise.all(
    Array.from({ length: 6 }, async (_, i) => {
      const prompt = [1 + i, 4];
      const name = ["sample", version, i];
      const request = { sequence: name.join("/"), tokens: prompt, maxTokens: 9, stop: [[7], [3, 3]] };
      // The protocol carries a seed, not a stream's name: a sampler on a server draws it from the stream.
      const seeded = [stream(...name).integer(2 ** 31)];
      const sampling = { temperature: 1, topP: 1, topK: 0 };
      const sample = await sampler.sample({ ...request, sampling, stream: isWire ? name : seeded });
      const tokens = [...prompt, ...sample.tokens];
      const trajectory: Trajectory = {
        ...{ agent: "main", version, tokens, actions: [[2, tokens.length]], logProbs: [...sample.logProbs] },
      };
      return {
        trajectory,
        group: i % 2,
        groupStd: 0.5,
        weight: 1 / 6,
        advantage: (tokens.length - 6) / 3 + (i - 2) / 10,
      };
    }),
  );
  const weights = tokenWeights(
    entries.map(({ group, weight, trajectory }) => ({ group, weight, actionTokens: trajectory.logProbs.length })),
    algorithm,
  );
  return entries.map((entry, i) => ({ ...entry, tokenWeight: weights[i] ?? 0 }));
}

/** Trains three versions, each from the files of the one before. The reference is always version 0. */
async function run(engine: PolicyEngine, files0: CheckpointFiles, isWire: boolean, config: object) {
  let current: CheckpointFiles = files0;
  const history = [];
  const algorithm = AlgorithmConfig.parse(config);
  for (let version = 0; version < 3; version++) {
    const sampler = await engine.openSampler(current, OPTIONS);
    const batch = await rollOut(sampler, version, algorithm, isWire);
    const trainer: Trainer = await engine.openTrainer(current, OPTIONS);
    const reference = await engine.openTrainer(files0, OPTIONS);
    const optimizer = { ...OptimizerConfig.parse({}), maxGradientNorm: null };
    const { stats } = await trainAlone(
      trainer,
      [batch],
      { algorithm, optimizer, entropyCoefficient: 0, temperature: 1, minibatchStream: [1] },
      reference,
    );
    history.push({ tokens: batch.map(({ trajectory }) => trajectory.tokens), stats });
    current = new Map([...current, ...(await trainer.save())]);
    await Promise.all([trainer.close(), reference.close(), sampler.close()]);
  }
  return history;
}

const objectives = { default: {}, sequences: { ratio: "sequence", kl: { coefficient: 0.1 }, minibatches: 2 } };

test.each([
  ["a server that sums", HOSTED, objectives.default],
  ["a server that averages", SKYRL_JAX, objectives.default],
  ["a server that averages, another objective", SKYRL_JAX, objectives.sequences],
])("a run on %s has the numbers of the local engine", async (_, rules, objective) => {
  const { engine, files: base, server } = tiny(rules);
  const expected = await run(bigramEngine, files, false, objective);
  const found = await run(engine, base, true, objective);
  for (const [version, { tokens, stats }] of found.entries()) {
    expect(tokens).toEqual(expected[version]?.tokens);
    for (const [name, value] of Object.entries(expected[version]?.stats ?? {})) {
      expect(stats[name as keyof typeof stats], `${name} of version ${version}`).toBeCloseTo(value, 4);
    }
    if (objective === objectives.default) expect(stats.maxRatioDeviation).toBeLessThan(1e-4);
  }
  expect(server.models.loaded).toEqual([]);
});

test("agents that share a policy on a server take the local engine's step; each agent's own gradient norm is null", async () => {
  const { engine, files: base } = tiny();
  const algorithm = AlgorithmConfig.parse({});
  const optimizer = { ...OptimizerConfig.parse({}), maxGradientNorm: null };
  const config = { algorithm, optimizer, entropyCoefficient: 0, temperature: 1, minibatchStream: [1] };
  const sharing = [
    { agent: "main", share: 0.75, config },
    { agent: "searcher", share: 0.25, config },
  ];
  const sampler = await bigramEngine.openSampler(files, OPTIONS);
  const batch = (await rollOut(sampler, 0, algorithm, false)).map((entry, i) => ({
    ...entry,
    trajectory: { ...entry.trajectory, agent: i % 3 === 0 ? "searcher" : "main" },
  }));
  const [local, wire] = [await bigramEngine.openTrainer(files, OPTIONS), await engine.openTrainer(base, OPTIONS)];
  const expected = await trainStep(local, [batch], sharing);
  const found = await trainStep(wire, [batch], sharing);
  expect(found.stats.gradientNorm).toBeCloseTo(expected.stats.gradientNorm, 4);
  for (const { agent, share } of sharing) {
    expect(found.perAgent?.[agent]).toMatchObject({ share, gradientNorm: null });
    expect(found.perAgent?.[agent]?.loss).toBeCloseTo(expected.perAgent?.[agent]?.loss ?? Number.NaN, 4);
  }
  const every = batch.map(({ trajectory }) => trajectory.tokens);
  const [a, b] = [await local.logProbs(every, 1), await wire.logProbs(every, 1)];
  for (const [i, row] of a.entries()) for (const [t, value] of row.entries()) expect(b[i]?.[t]).toBeCloseTo(value, 3);
  await Promise.all([local.close(), wire.close(), sampler.close()]);
});

test("a step computes log-probs once; a request has at most microBatchTokens, or one longer sequence", async () => {
  const { engine, files: base, server } = tiny();
  const trainer = await engine.openTrainer(base, { ...OPTIONS, microBatchTokens: 10 });
  const batch = [4, 4, 4, 15].map((length, i) => ({
    tokens: Array.from({ length }, (_, t) => t + i),
    weights_T: new Float32Array(length).fill(-0.1),
  }));
  const before = server.calls.length;
  await trainer.logProbs(
    batch.map(({ tokens }) => tokens),
    1,
  );
  await trainer.forwardBackward(batch, { kind: "linear" }, 1);
  await trainer.optimizerStep({ ...OptimizerConfig.parse({}) });
  const paths = server.calls.slice(before).map(({ path }) => path);
  const count = (path: string) => paths.filter((one) => one === path).length;
  expect([count("forward"), count("forward_backward"), count("optim_step")]).toEqual([3, 3, 1]);
});

test.each([HOSTED, SKYRL_JAX])(
  "later training does not change a version's samples, and sampling does not change the trained weights: %o",
  async (rules) => {
    const { engine, files: base, server } = tiny(rules);
    const trainer = await engine.openTrainer(base, OPTIONS);
    const step = async () => {
      const sequence = { tokens: [1, 2, 3, 4], weights_T: new Float32Array(4).fill(-1) };
      await trainer.forwardBackward([sequence], { kind: "linear" }, 1);
      await trainer.optimizerStep({ ...OptimizerConfig.parse({ learningRate: 0.1 }), maxGradientNorm: null });
      return new Map([...base, ...(await trainer.save())]);
    };
    const generate = async (sampler: Sampler) => {
      const sampling = { temperature: 1, topP: 1, topK: 0 };
      return sampler.sample({ sequence: "s", tokens: [1], maxTokens: 8, stop: [], stream: ["sample"], sampling });
    };
    const one = await engine.openSampler(await step(), OPTIONS);
    const before = await generate(one);
    await step();
    const trained = await trainer.logProbs([[1, 2, 3, 4]], 1);
    expect(await generate(one)).toEqual(before);
    // The learning rate is negligible: the step only empties the trainer's cache, so that the server computes the log-probs again.
    await trainer.optimizerStep({ ...OptimizerConfig.parse({ learningRate: 1e-12 }), maxGradientNorm: null });
    expect((await trainer.logProbs([[1, 2, 3, 4]], 1))[0]?.[1]).toBeCloseTo(trained[0]?.[1] ?? Number.NaN, 5);
    await Promise.all([one.close(), trainer.close()]);
    expect(server.models.loaded).toEqual([]);
    expect([...server.models.saved.values()].filter(({ kind, steps }) => kind === "sampler" && steps > 0)).toEqual([]);
  },
);

test("clipping is refused where the server does not clip, before anything is sent", async () => {
  const { engine, files: base, server } = tiny(SKYRL_JAX);
  const trainer = await engine.openTrainer(base, OPTIONS);
  await trainer.forwardBackward([{ tokens: [1, 2], weights_T: Float32Array.of(0, 1) }], { kind: "linear" }, 1);
  const before = server.calls.length;
  expect(await errorOf(trainer.optimizerStep(OptimizerConfig.parse({})))).toMatch(
    /config-invalid: optimizer.maxGradientNorm is 1, but .* does not clip gradients: set it to null/,
  );
  expect(server.calls).toHaveLength(before);
});

test("a temperature of 0.7 is refused in training and in sampling, since servers compute log-probs at 1 only", async () => {
  const { engine, files: base } = tiny();
  const [trainer, sampler] = [await engine.openTrainer(base, OPTIONS), await engine.openSampler(base, OPTIONS)];
  expect(await errorOf(trainer.logProbs([[1, 2]], 0.7))).toMatch(/temperature is 0.7, .*set temperature to 1/);
  const sampling = { temperature: 0.7, topP: 1, topK: 0 };
  const request = { sequence: "s", tokens: [1], maxTokens: 1, stop: [], stream: ["s"], sampling };
  expect(await errorOf(sampler.sample(request))).toMatch(/request-refused: temperature is 0.7, .*or to 0 for greedy/);
});

test("a model whose weights cannot be loaded is unloaded", async () => {
  const { engine, files: base, server } = tiny();
  const trainer = await engine.openTrainer(base, OPTIONS);
  const saved = new Map([...base, ...(await trainer.save())]);
  await trainer.close();
  server.injectFaults(({ path }) =>
    path === "load_weights" ? new Response(JSON.stringify({ detail: "no such weights" }), { status: 400 }) : undefined,
  );
  await expect(engine.openSampler(saved, OPTIONS)).rejects.toMatchObject({ code: "endpoint-refused" });
  expect(server.models.loaded).toEqual([]);
});

test("a trainer whose server restarts fails with replay-failed, and gets a fresh model when it loads a version", async () => {
  const { engine, files: base, server } = tiny(SKYRL_JAX);
  const trainer = await engine.openTrainer(base, OPTIONS);
  const before = await trainer.logProbs([[1, 2, 3]], 1);
  server.restart();
  expect(await errorOf(trainer.logProbs([[1, 2, 4]], 1))).toMatch(/^replay-failed: .* has lost model .* not loaded$/);
  await trainer.load(base);
  expect(await trainer.logProbs([[1, 2, 3]], 1)).toEqual(before);
});

test("a base model's full name is preferred to another model's name that ends with it", async () => {
  const supported_models = [
    { model_name: "small/Qwen3-4B", max_context_length: 10 },
    { model_name: "Qwen3-4B", max_context_length: 1000 },
  ];
  const engine = tiny().connect({ fetch: async () => Response.json({ supported_models }) });
  const version = tinkerBase("tinker:http://127.0.0.1:9", "Qwen3-4B", files, [1]);
  await expect(engine.check?.(version, OPTIONS)).resolves.toBeUndefined();
});

test("the base model is resolved by name on the server, and refused if it is not served or its context is too short", async () => {
  const server = { engine: bigramEngine, files, options: OPTIONS };
  const { engine, connect } = tinyTinker({ ...server, baseModel: "Qwen/Qwen3-4B", maxContextLength: 100 });
  const named = (name: string) => tinkerBase("tinker:http://127.0.0.1:9", name, files, [1]);
  await engine.check?.(named("Qwen3-4B"), { ...OPTIONS, contextTokens: 100 });
  expect(await errorOf(engine.check?.(named("Qwen3-8B"), OPTIONS) ?? Promise.resolve())).toMatch(
    /config-invalid: .* serves Qwen\/Qwen3-4B, not 'Qwen3-8B': set policy to tinker:http.*#<a model that it serves>/,
  );
  expect(await errorOf(engine.openTrainer(named("Qwen3-4B"), OPTIONS))).toMatch(
    /contextTokens is 200, but .* supports at most 100/,
  );
  const unreachable = connect({ fetch: () => Promise.reject(new TypeError("fetch failed")), retrySeconds: 0 });
  expect(await errorOf(unreachable.check?.(named("Qwen3-4B"), OPTIONS) ?? Promise.resolve())).toMatch(
    /endpoint-unavailable: GET/,
  );
});

test("version 0 is the folder without its weights, plus a tinker.json; an exported version keeps its own", () => {
  const folder = new Map([
    ...files,
    ["model.safetensors.index.json", new Uint8Array()],
    ["tokenizer.json", new Uint8Array([1])],
  ]);
  const base = tinkerBase("tinker:http://gpu1:8000", "Qwen3-0.6B", folder, [7, "main"], 16);
  expect([...base.keys()]).toEqual(["config.json", "tokenizer.json", "tinker.json"]);
  expect(readTinkerVersion(base)).toMatchObject({ baseModel: "Qwen3-0.6B", rank: 16, weights: null });
  expect(tinkerBase("tinker:http://gpu1:8000", "Qwen3-0.6B", folder, [7, "main"], 16)).toEqual(base);
  expect(readTinkerVersion(tinkerBase("tinker:http://gpu1:8000", "Qwen3-0.6B", folder, [7])).rank).toBe(32);
  // An exported version continues with its own model and rank.
  expect(tinkerBase("tinker:http://gpu2:8000", "main", base, [8, "main"])).toEqual(base);
  expect(() => tinkerBase("tinker:http://gpu2:8000", "main", base, [8, "main"], 8)).toThrow(
    /rank 16 on 'Qwen3-0.6B', .*: set lora\.rank and the model of policy .* to these, or leave both out/,
  );
});

test.each([
  ["tinker:gpu1:8000", /write tinker:http:\/\/host:port/],
  ["tinker:http://gpu1:8000?rank=8", /^policy of gpu1:8000: remove \?rank=8 and set agents\.<name>\.lora\.rank=8$/],
  ["tinker:http://gpu1:8000?ranks=8&api_key=secret", /: it takes no parameters: remove ranks, api_key$/],
  [
    "tinker:http://user:secret@gpu1:8000",
    /^policy: the URL of gpu1:8000 must not contain a user name or key: set TINKER_API_KEY$/,
  ],
  ["tinker:http://user:se#c@ret@gpu1:port", /^policy 'tinker:http:\/\/gpu1:port': write tinker:http:\/\/host:port/],
  ["tinker:gpu1:8000?api_key=secret", /^policy 'tinker:gpu1:8000\?…': write tinker:http:\/\/host:port/],
  ["tinker:user:secret@gpu1:8000", /^policy 'tinker:gpu1:8000': write tinker:http:\/\/host:port/],
  ["tinker:http://gpu1:8000#100%", /^policy of gpu1:8000: the model #100% is not .*: write % as %25$/],
])("policy %s is refused", (policy, message) => {
  expect(() => tinkerBase(policy, "any", files, [1])).toThrow(message);
});

test("the config may set the rank of a Tinker policy's adapter; settings that the server decides are refused", () => {
  const faultsOf = (lora: object) => {
    const agents = { main: { policy: POLICY, lora: LoraConfig.parse(lora), engine: { threads: 1 } } };
    return tinkerFaults({ temperature: 1, agents, evaluation: { suites: [] } }).map(([path]) => path.join("."));
  };
  expect(supportsLora(POLICY)).toBe(true);
  expect(faultsOf({ rank: 8 })).toEqual([]);
  expect(faultsOf({ alpha: 16, targets: ["q_proj"] })).toEqual(["agents.main.lora.alpha", "agents.main.lora.targets"]);
});

test("the base model named in policy takes precedence over the folder's name", () => {
  expect(readTinkerVersion(tinkerBase(POLICY, "any", files, [1])).baseModel).toBe("tiny-qwen3");
});
