/**
 * @file Adapters compared with PEFT (test/fixtures/peft/make.py): we read its files, compute its loss and gradients, and write its format.
 * Also how an adapter is initialized, and which adapters are refused.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import { LoraTarget } from "../../core/contracts/lora.ts";
import type { CheckpointFile, CheckpointFiles, Loss } from "../../core/ports.ts";
import {
  ADAPTER_CONFIG_FILE,
  ADAPTER_FILE,
  adapterLayout,
  initializeAdapter,
  readAdapter,
  readAdapterConfig,
  writeAdapterConfig,
} from "../../engine/checkpoint/adapter.ts";
import { readModelConfig } from "../../engine/checkpoint/config.ts";
import { withLora } from "../../engine/checkpoint/lora.ts";
import { mergeAdapter } from "../../engine/checkpoint/merge.ts";
import { writeSafetensors } from "../../engine/checkpoint/safetensors.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { parseCheckpoint, writeModel } from "../../engine/checkpoint/weights.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { readSafetensors } from "./read-safetensors.ts";
import { takeGradient } from "./take-gradient.ts";
import { LORA, OPTIONS, TINY, tinyAdapter, tinyCheckpoint, UNTIED } from "./tiny.ts";

const FIXTURE = join(import.meta.dirname, "../fixtures/peft");
const options = { ...OPTIONS, contextTokens: 64 };

interface Expected {
  readonly temperature: number;
  readonly clipLow: number;
  readonly clipHigh: number;
  readonly sequences: { tokens: number[]; weights: number[]; advantages: number[]; behavior: number[] }[];
  readonly logProbs: number[][];
  readonly referenceLogProbs: number[][];
  readonly losses: Record<Loss["kind"], number>;
}

const filesOf = (folder: string) =>
  readdirSync(join(FIXTURE, folder)).map(
    (name) => [name, new Uint8Array(readFileSync(join(FIXTURE, folder, name)))] as const,
  );
const base: ReadonlyMap<string, Uint8Array> = new Map(filesOf("base"));
const adapted: ReadonlyMap<string, Uint8Array> = new Map([...base, ...filesOf("adapter")]);
const expected = JSON.parse(readFileSync(join(FIXTURE, "expected.json"), "utf8")) as Expected;
const { temperature, clipLow, clipHigh } = expected;
const tokens = expected.sequences.map((sequence) => sequence.tokens);
const batch = expected.sequences.map(({ tokens, weights, advantages, behavior }) => ({
  tokens,
  weights_T: Float32Array.from(weights),
  advantages_T: Float32Array.from(advantages),
  behaviorLogProbs_T: Float32Array.from(behavior),
}));

function expectClose(found: readonly Float32Array[], wanted: readonly number[][], digits: number) {
  wanted.forEach((row, i) => {
    row.forEach((value, t) => {
      expect(found[i]?.[t + 1], `token ${t + 1} of ${i}`).toBeCloseTo(value, digits);
    });
  });
}

describe("compared with PEFT", () => {
  test("log-probs match, with the adapter and without it", async () => {
    for (const [files, wanted] of [
      [adapted, expected.logProbs],
      [base, expected.referenceLogProbs],
    ] as const) {
      const trainer = await compiledEngine.openTrainer(files, options);
      expectClose(await trainer.logProbs(tokens, temperature), wanted, 4);
      await trainer.close();
    }
  });

  test.each<Loss>([{ kind: "linear" }, { kind: "clipped-token", clipLow, clipHigh }])(
    "loss and gradients match: $kind",
    async (loss) => {
      const trainer = await compiledEngine.openTrainer(adapted, options);
      const pass = await trainer.forwardBackward(batch, loss, temperature);
      expect(pass.loss).toBeCloseTo(expected.losses[loss.kind], 4);
      const found = await takeGradient(trainer);
      const wanted = readSafetensors(
        new Uint8Array(readFileSync(join(FIXTURE, "gradients.safetensors"))),
        "gradients",
      ).tensors;
      const { parameters } = adapterLayout(readModelConfig(base), readAdapterConfig(adapted)?.lora ?? LORA);
      expect(parameters).toHaveLength(2 * 7 * 2);
      for (const { name, offset } of parameters) {
        const values = wanted.get(`${loss.kind}:${name}`)?.values ?? new Float32Array();
        expect(values.length, name).toBeGreaterThan(0);
        const largest = Math.max(...values.map(Math.abs));
        values.forEach((value, i) => {
          expect(Math.abs((found[offset + i] ?? 0) - value), `${name}[${i}]`).toBeLessThan(1e-5 + 1e-4 * largest);
        });
      }
    },
  );

  test("log-probs of a merged model match", async () => {
    const checkpoint = parseCheckpoint(adapted);
    const adapter = readAdapter(adapted, checkpoint.config);
    if (!adapter) throw new Error("the fixture has an adapter");
    mergeAdapter(checkpoint, adapter);
    const files = new Map([...base, [MODEL_FILE, writeModel(checkpoint.layout, checkpoint.weights)]]);
    const trainer = await compiledEngine.openTrainer(files, options);
    expectClose(await trainer.logProbs(tokens, temperature), expected.logProbs, 4);
    await trainer.close();
  });
});

describe("files for PEFT", () => {
  test("have its names, shapes and settings", () => {
    const config = readModelConfig(base);
    const theirs = readSafetensors(adapted.get(ADAPTER_FILE) ?? new Uint8Array(), "theirs").tensors;
    const adapter = readAdapter(adapted, config);
    if (!adapter) throw new Error("the fixture has an adapter");
    const ours = readSafetensors(writeModel(adapter.layout, adapter.weights), "ours").tensors;
    expect([...ours.keys()].sort()).toEqual([...theirs.keys()].sort());
    for (const [name, tensor] of ours) expect(tensor, name).toEqual(theirs.get(name));
    const written = JSON.parse(writeAdapterConfig(adapter.lora, "test/fixtures/peft/base")) as Record<string, unknown>;
    const read = JSON.parse(new TextDecoder().decode(adapted.get(ADAPTER_CONFIG_FILE))) as Record<string, unknown>;
    for (const [key, value] of Object.entries(written)) {
      const sorted = (setting: unknown) => (Array.isArray(setting) ? [...setting].sort() : setting);
      expect(sorted(value), key).toEqual(sorted(read[key]));
    }
  });
});

describe("an adapter", () => {
  test("is added to a base, and never replaces an existing one", () => {
    const added = withLora(tinyCheckpoint(), "models/tiny", [1], { rank: 4 });
    expect(readAdapter(added, TINY)?.lora).toMatchObject({ rank: 4, alpha: 32 });
    const refused = expect.objectContaining({ code: "config-invalid" });
    expect(() => withLora(tinyAdapter(), "models/tiny", [1], { rank: 4 })).toThrow(refused);
  });

  test("trains from zero moments on a base that was itself trained", async () => {
    const whole = await compiledEngine.openTrainer(tinyCheckpoint(), OPTIONS);
    const trained = new Map([...tinyCheckpoint(), ...(await whole.save())]);
    const added = withLora(trained, "models/tiny", [1], { rank: 4 });
    const adapter = await compiledEngine.openTrainer(added, OPTIONS);
    expect(trained.has("optimizer.safetensors")).toBe(true);
    expect((await adapter.save()).has("optimizer.safetensors")).toBe(true);
    await Promise.all([whole.close(), adapter.close()]);
  });

  test("is refused if a setting is invalid, and the message names it", () => {
    const message = expect.stringMatching(/^withLora: rank: /);
    const refused = expect.objectContaining({ code: "config-invalid", message });
    expect(() => withLora(tinyCheckpoint(), "models/tiny", [1], { rank: 0 })).toThrow(refused);
  });

  test("is trained to the same bytes on a memory-mapped base", async () => {
    const path = join(FIXTURE, "base", MODEL_FILE);
    const mapped: CheckpointFiles = new Map<string, CheckpointFile>([
      ...adapted,
      [MODEL_FILE, { path, bytes: statSync(path).size }],
    ]);
    const saved: Map<string, Uint8Array>[] = [];
    for (const files of [adapted, mapped]) {
      const trainer = await compiledEngine.openTrainer(files, options);
      await trainer.forwardBackward(batch, { kind: "clipped-token", clipLow, clipHigh }, temperature);
      await trainer.optimizerStep(OptimizerConfig.parse({ learningRate: 0.01 }));
      saved.push(await trainer.save());
      await trainer.close();
    }
    expect(saved[1]).toEqual(saved[0]);
  });

  test("initially computes what its base does: B is 0; the entries of A are at most 1 / sqrt(inputs) in size, and depend on the seed", async () => {
    const { layout, weights } = initializeAdapter(TINY, { ...LORA, rank: 8 }, [1, "main"]);
    expect(initializeAdapter(TINY, { ...LORA, rank: 8 }, [1, "main"]).weights).toEqual(weights);
    expect(initializeAdapter(TINY, { ...LORA, rank: 8 }, [1, "sub"]).weights).not.toEqual(weights);
    for (const { name, shape, offset, length } of layout.parameters) {
      const part = weights.subarray(offset, offset + length);
      const bound = name.includes("lora_A") ? 1 / Math.sqrt(shape[1] ?? 0) : 0;
      const largest = Math.max(...part.map(Math.abs));
      expect(largest, name).toBeLessThanOrEqual(bound);
      expect(largest, name).toBeGreaterThanOrEqual(0.9 * bound);
    }
    const fresh = new Map([
      ...tinyCheckpoint(),
      [ADAPTER_CONFIG_FILE, new TextEncoder().encode(writeAdapterConfig({ ...LORA, rank: 8 }, "base"))],
      [ADAPTER_FILE, writeModel(layout, weights)],
    ]);
    const sequence = [3, 1, 4, 1, 5, 9];
    const logProbs: Float32Array[][] = [];
    for (const files of [fresh, tinyCheckpoint()]) {
      const trainer = await compiledEngine.openTrainer(files, OPTIONS);
      logProbs.push(await trainer.logProbs([sequence], 1));
      await trainer.close();
    }
    logProbs[0]?.[0]?.forEach((value, t) => {
      expect(value).toBeCloseTo(logProbs[1]?.[0]?.[t] ?? 0, 5);
    });
  });
});

const tensors = () => new Map(readSafetensors(tinyAdapter().get(ADAPTER_FILE) ?? new Uint8Array(), "x").tensors);
const withTensors = (changed: Parameters<typeof writeSafetensors>[0]) =>
  new Map([...tinyAdapter(), [ADAPTER_FILE, writeSafetensors(changed)]]);
const withConfig = (settings: Record<string, unknown>) => {
  const config = JSON.parse(writeAdapterConfig(LORA, "base")) as Record<string, unknown>;
  const bytes = new TextEncoder().encode(JSON.stringify({ ...config, ...settings }));
  return new Map([...tinyAdapter(), [ADAPTER_CONFIG_FILE, bytes]]);
};
const EMBEDDINGS = "base_model.model.model.embed_tokens.weight";
const Q = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";

describe("an adapter that is damaged, unsupported or for another base", () => {
  test.each<[string, () => CheckpointFiles, RegExp]>([
    [
      "another base's shapes",
      () => withTensors(tensors().set(Q, { shape: [3, 2], values: new Float32Array(6) })),
      /q_proj.lora_A.weight' has shape \[3,2\], but this base requires \[3,12\]: the adapter is for another base/,
    ],
    [
      "another base's layers",
      () => withTensors(tensors().set(Q.replace(".0.", ".7."), { shape: [1], values: new Float32Array(1) })),
      /layers.7.*belongs to no layer of this base: the adapter is for another base/,
    ],
    [
      "matrices of a layer that is not a target",
      () => withConfig({ target_modules: ["v_proj"] }),
      /q_proj.lora_A.weight' is there, but target_modules in .* does not list q_proj: add q_proj to target_modules, or/,
    ],
    [
      "trained embeddings",
      () => withTensors(tensors().set(EMBEDDINGS, { shape: [1], values: new Float32Array(1) })),
      /embed_tokens.weight' is not supported: this engine supports LoRA matrices of .*: save the adapter without it$/,
    ],
    [
      "a missing tensor",
      () => withTensors(new Map([...tensors()].slice(1))),
      /no tensor 'base_model.model.model.layers.0/,
    ],
    [
      "a missing file",
      () => new Map([...tinyAdapter()].filter(([name]) => name !== ADAPTER_FILE)),
      /adapter_model.safetensors: not in the checkpoint/,
    ],
    [
      "a weight that is not a number",
      () => withTensors(tensors().set(Q, { shape: [3, 12], values: new Float32Array(36).fill(Number.NaN, 5, 6) })),
      /q_proj.lora_A.weight' holds NaN at element 5 of \[3,12\]: take a checkpoint from before its training diverged/,
    ],
    ["dropout", () => withConfig({ lora_dropout: 0.1 }), /lora_dropout = 0.1 is not supported/],
    ["DoRA", () => withConfig({ use_dora: true }), /use_dora = true/],
    ["a setting of a later PEFT", () => withConfig({ use_something: { on: 1 } }), /use_something = {"on":1}/],
    [
      "another type, without lora_alpha",
      () => withConfig({ peft_type: "LOHA", alpha: 8, lora_alpha: undefined }),
      /peft_type = "LOHA" is not supported/,
    ],
    ["other layers", () => withConfig({ target_modules: ["lm_head"] }), /target_modules = \["lm_head"\]/],
    ["no list of layers", () => withConfig({ target_modules: null }), /target_modules = null is not supported/],
    [
      "an initialization that changes the base",
      () => withConfig({ init_lora_weights: "pissa" }),
      /init_lora_weights = "pissa"/,
    ],
  ])("is refused, and the message names the cause: %s", (_name, files, message) => {
    expect(() => readAdapter(files(), TINY)).toThrow(message);
  });
});

test("an adapter can target each of the seven linear layers in a decoder layer, and has parameters only for its targets", () => {
  expect(LoraTarget.options).toHaveLength(7);
  const { parameters } = adapterLayout(UNTIED, { rank: 2, alpha: 2, targets: ["v_proj"] });
  expect(parameters.map(({ name, shape }) => [name, shape])).toEqual([
    ["base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight", [2, 12]],
    ["base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight", [12, 2]],
  ]);
});
