/**
 * @file A server with an optimizer of its own is refused unless the config declares it, and always if it ignores the learning rate it is sent.
 * A declared one trains with exactly its own optimizer, at the config's learning rate, and what the probe measured is reported.
 */
import { expect, test } from "vitest";
import { OptimizerConfig, type StepOptimizer } from "../../../core/contracts/agent-config.ts";
import { RunConfig } from "../../../core/contracts/config.ts";
import { tableKeys } from "../../../core/contracts/keys.ts";
import { AgentRecord } from "../../../core/contracts/records.ts";
import { describeOptimizer } from "../../../core/contracts/server-optimizer.ts";
import type { CheckpointFiles, Trainer } from "../../../core/ports.ts";
import { stream } from "../../../core/random.ts";
import { createBusyMeter } from "../../../gpu-workers/busy.ts";
import type { Checkpoints } from "../../../gpu-workers/checkpoints.ts";
import { createLog } from "../../../gpu-workers/log.ts";
import type { RunContext } from "../../../gpu-workers/run-context.ts";
import { TrainerState } from "../../../gpu-workers/training/trainer-state.ts";
import { bigramEngine, bigramFiles } from "../../fakes/bigram-engine.ts";
import { memoryStore } from "../../fakes/memory-store.ts";
import { HOSTED, OWN_ADAM, SKYRL_JAX, type TinkerRules } from "../../fakes/tinker-models.ts";
import { OPTIONS } from "../tiny.ts";
import { POLICY, tinyTinker } from "./tiny-tinker.ts";

const files = bigramFiles(30);
const SILENT = createLog(() => {});
const DECLARED = { ...OPTIONS, serverOptimizer: true };
const tiny = (rules: TinkerRules) => tinyTinker({ engine: bigramEngine, files, options: OPTIONS, rules });

test.each<[string, Partial<TinkerRules>, boolean, RegExp]>([
  [
    "steps with its own Adam settings",
    { adam: "own" },
    false,
    /\(epsilon, beta1\).*optimizer to "server" to train with those/,
  ],
  ["has betas of its own", { adam: "own-betas" }, false, /\(beta1\).*optimizer to "server" to train with those/],
  [
    "has a learning rate of its own (even if declared)",
    { rate: false },
    true,
    /uses its own learning rate and ignores the one it is sent/,
  ],
  [
    "has its own learning rate and Adam (even if declared)",
    { rate: false, adam: "own" },
    true,
    /uses its own learning rate/,
  ],
])("a server that %s is refused", async (_, rules, serverOptimizer, message) => {
  const { engine, files: base, server } = tiny({ ...HOSTED, ...rules });
  const opening = engine.openTrainer(base, { ...OPTIONS, serverOptimizer });
  await expect(opening).rejects.toMatchObject({ code: "engine-unsupported", message: expect.stringMatching(message) });
  expect(server.models.loaded).toEqual([]);
});

/** Takes two steps, saves, and closes the trainer. The second step depends on the moments of the first. */
async function twoSteps(trainer: Trainer, optimizer: StepOptimizer): Promise<CheckpointFiles> {
  for (const weight of [-1, 0.5]) {
    const sequence = { tokens: [1, 2, 3, 4], weights_T: new Float32Array(4).fill(weight) };
    await trainer.forwardBackward([sequence], { kind: "linear" }, 1);
    await trainer.optimizerStep(optimizer);
  }
  const saved = await trainer.save();
  await trainer.close();
  return saved;
}

test.each([HOSTED, SKYRL_JAX])("a declared server trains with its own Adam, clipping included: %o", async (rules) => {
  const { engine, files: base, stateOf } = tiny({ ...rules, adam: "own" });
  const served = await twoSteps(await engine.openTrainer(base, DECLARED), { kind: "server", learningRate: 0.02 });
  const local = await bigramEngine.openTrainer(files, OPTIONS);
  const expected = await twoSteps(local, { ...OWN_ADAM, learningRate: 0.02 });
  for (const [name, bytes] of expected) {
    const found = new Float32Array(Uint8Array.from(stateOf(served).get(name) as Uint8Array).buffer);
    const wanted = new Float32Array(Uint8Array.from(bytes as Uint8Array).buffer);
    expect(found.length).toBe(wanted.length);
    for (const [i, value] of wanted.entries()) expect(found[i]).toBeCloseTo(value, 5);
  }
});

test("a declared server keeps its own settings: a step request has only the learning rate", async () => {
  const { engine, files: base, server } = tiny({ ...SKYRL_JAX, adam: "own" });
  const trainer = await engine.openTrainer(base, DECLARED);
  const before = server.calls.length;
  await twoSteps(trainer, { kind: "server", learningRate: 0.02 });
  const steps = server.calls.slice(before).filter(({ path }) => path === "optim_step");
  expect(steps.map(({ body }) => body["adam_params"])).toEqual(Array(2).fill({ learning_rate: 0.02 }));
});

test.each<[string, TinkerRules["adam"], object, string]>([
  [
    "only the learning rate",
    "own",
    { followsEpsilon: false, followsBeta1: false },
    "the learning rate, not epsilon and beta1;",
  ],
  [
    "all but beta1",
    "own-betas",
    { followsEpsilon: true, followsBeta1: false },
    "the learning rate and epsilon, not beta1;",
  ],
  ["all", "request", { followsEpsilon: true, followsBeta1: true }, "the learning rate, epsilon, and beta1;"],
])("the probe reports which settings the server follows: %s", async (_, adam, measured, words) => {
  const { engine, files: base } = tiny({ ...SKYRL_JAX, adam });
  const trainer = await engine.openTrainer(base, DECLARED);
  const { optimizerProbe } = trainer;
  expect(optimizerProbe).toMatchObject({ server: "http://127.0.0.1:9", ...measured });
  expect(optimizerProbe?.rise).toBeGreaterThan(0);
  expect(optimizerProbe && describeOptimizer(optimizerProbe)).toContain(`follows ${words}`);
  await trainer.close();
});

test("version 0 can be sampled on a server that does not sample its base model", async () => {
  const { engine, files: base, server } = tiny({ ...SKYRL_JAX, adam: "own", samplesBase: false });
  const sampler = await engine.openSampler(base, DECLARED);
  const sampling = { temperature: 1, topP: 1, topK: 0 };
  const request = { sequence: "s", tokens: [1], maxTokens: 4, stop: [], stream: [1], sampling };
  const local = await bigramEngine.openSampler(files, OPTIONS);
  const seeded = { ...request, stream: [stream(1).integer(2 ** 31)] };
  expect((await sampler.sample(request)).tokens).toEqual((await local.sample(seeded)).tokens);
  await sampler.close();
  expect(server.models.loaded).toEqual([]);
});

test("when an agent's trainer opens, it records what the probe measured", async () => {
  const { engine, files: base } = tiny({ ...SKYRL_JAX, adam: "own" });
  const store = memoryStore();
  const agents = { main: { model: "m", policy: POLICY, optimizer: "server" as const } };
  const run = {
    name: "r",
    config: RunConfig.parse({ run: "r", recipe: "atlas", steps: 1, agents }),
    store,
    log: SILENT,
  };
  const record = { run: "r", agent: "main", version: 0, trainer: "w", fence: 1, takeovers: 0 };
  await store.table.insert(tableKeys.agent("r", "main"), record);
  const checkpoints = { files: async () => base } as unknown as Checkpoints;
  // Opening a trainer reads nothing else of the run.
  const state = new TrainerState({
    run: run as unknown as RunContext,
    agent: "main",
    engine,
    checkpoints,
    worker: "w",
    meter: createBusyMeter(),
  });
  const part = { sha256: "a".repeat(64), bytes: 1 };
  const version0 = {
    run: "r",
    agent: "main",
    version: 0,
    trained: false,
    files: { "tinker.json": part },
    stats: null,
    seconds: null,
  };
  await state.use(version0, async () => ({ trained: false }));
  expect(AgentRecord.parse(await store.table.get(tableKeys.agent("r", "main")))).toMatchObject({
    ...record,
    optimizer: { server: "http://127.0.0.1:9", followsEpsilon: false, followsBeta1: false },
  });
  await state.close();
});

test("without a declared server optimizer, a trainer has no probe to report", async () => {
  const { engine, files: base } = tiny(SKYRL_JAX);
  const trainer = await engine.openTrainer(base, OPTIONS);
  expect(trainer.optimizerProbe).toBeUndefined();
  await trainer.optimizerStep({ ...OptimizerConfig.parse({}), maxGradientNorm: null });
  await trainer.close();
});
