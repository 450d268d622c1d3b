/**
 * @file GPU providers: those that work on this machine compute what the CPU computes, and others are refused. docs/gpu.md explains how to use
 * a software adapter for WebGPU. CUDA is tested only with NVIDIA_TF32_OVERRIDE=0.
 */
import { createRequire } from "node:module";
import * as tf from "@tensorflow/tfjs-core";
import { describe, expect, test } from "vitest";
import type { ExecutionProvider } from "../../core/contracts/engine.ts";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import type { CheckpointFiles, EngineOptions, TrainingSequence } from "../../core/ports.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { openGraphSession, tensor } from "../../engine/compiled/graph-session.ts";
import { forWebGpu } from "../../engine/compiled/onnx/webgpu.ts";
import { traceGraph } from "../../engine/compiled/trace/trace.ts";
import { GPU_PACKAGE, INSTALL_GPU_PACKAGE } from "../../engine/eager/backend.ts";
import { rmsNorm } from "../../engine/model/kernels.ts";
import { samplerContract } from "../contracts/sampler.ts";
import { trainerContract } from "../contracts/trainer.ts";
import { checkpointFiles, checkpointNames, localFiles, referenceOf } from "../fixtures/checkpoints.ts";
import { BIASED, LAYERED, LORA, OPTIONS, TINY, tinyAdapter, tinyCheckpoint, UNTIED } from "./tiny.ts";

const WEBGPU = { ...OPTIONS, provider: "webgpu" } as const;
const providerOf = (options: EngineOptions) =>
  compiledEngine.computesOn?.(options).catch((error: Error) => error.message) ?? Promise.resolve("");
const webgpu = await providerOf(WEBGPU);

/** By default, onnxruntime's CUDA provider rounds the inputs of fp32 products to TF32. */
const hasExactCuda =
  process.env["NVIDIA_TF32_OVERRIDE"] === "0" && /^cuda: /.test(await providerOf({ ...OPTIONS, provider: "cuda" }));
const ON_WEBGPU = /^webgpu: a tiny model/;
const NO_ADAPTER = /Failed to get a WebGPU adapter/;
const CPU = { threads: 1, provider: "cpu" } as const;
const SOME_LAYERS: LoraConfig = { rank: 2, alpha: 1, targets: ["k_proj", "up_proj"] };
const LOSS = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 } as const;
const BATCH: TrainingSequence[] = [[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5, 8], [2]].map((tokens, i) => ({
  tokens,
  weights_T: Float32Array.from(tokens, (_, t) => 0.1 * (t + i)),
  advantages_T: Float32Array.from(tokens, (_, t) => ((t + i) % 2 ? 1.5 : -0.7)),
  behaviorLogProbs_T: Float32Array.from(tokens, (_, t) => -3.5 - 0.3 * t),
}));

describe("on any machine", () => {
  test("a policy computes on the CPU by default", async () => {
    expect(await providerOf(OPTIONS)).toBe("cpu");
  });

  test("WebGPU is refused where it is unusable, and the CPU does not replace it", async () => {
    if (ON_WEBGPU.test(webgpu)) return;
    expect(webgpu).toMatch(/^engine\.provider webgpu: .*driver.*, or set engine\.provider to cpu$/);
    await expect(compiledEngine.openTrainer(tinyCheckpoint(), WEBGPU)).rejects.toThrow(webgpu);
    await expect(compiledEngine.openSampler(tinyCheckpoint(), WEBGPU)).rejects.toThrow(webgpu);
  });

  test("bf16 on an unusable provider is refused with advice that works on any machine", async () => {
    const cuda = await providerOf({ ...OPTIONS, provider: "cuda", precision: "bf16" });
    if (cuda.startsWith("cuda, products in bf16: ")) return;
    expect(cuda).toMatch(/^engine\.provider cuda: .*, or set engine\.precision to fp32, and engine\.provider to cpu/);
  });

  test("WebGPU computes what the CPU computes, or has no adapter", () => {
    expect(webgpu).toMatch(ON_WEBGPU.test(webgpu) ? ON_WEBGPU : NO_ADAPTER);
  });

  test("the command that installs the GPU package names the version in package.json", () => {
    const { peerDependencies } = createRequire(import.meta.url)("../../package.json");
    expect(INSTALL_GPU_PACKAGE).toBe(`npm install ${GPU_PACKAGE}@${peerDependencies[GPU_PACKAGE]}`);
  });

  test("a graph rewritten for WebGPU computes the same", async () => {
    const traced = traceGraph("rewritten", (scope) => {
      const [x, gain] = [scope.input<tf.Tensor2D>("x", [6, 5]), scope.input<tf.Tensor1D>("gain", [5])];
      const [dx, dgain] = tf.grads((...[a, g]) => rmsNorm(a as tf.Tensor2D, g as tf.Tensor, 1e-6))([x, gain]);
      const cube = tf.reshape(x, [2, 3, 5]);
      scope.output("y", rmsNorm(x, gain, 1e-6));
      scope.output("dx", dx as tf.Tensor);
      scope.output("dgain", dgain as tf.Tensor);
      scope.output("left", tf.matMul(x, x, true, false));
      scope.output("right", tf.matMul(x, x, false, true));
      scope.output("batchedRight", tf.matMul(cube, cube, false, true));
      scope.output("batchedLeft", tf.matMul(cube, cube, true, false));
      scope.output("sum", tf.addN([x, tf.exp(x), tf.square(x)]));
      scope.output("logSoftmax", tf.engine().runKernel("LogSoftmax", { logits: x }, { axis: -1 }) as never);
    });
    const rewritten = { ...traced, graph: forWebGpu(traced.graph) };
    const operators = new Set(rewritten.graph.nodes.map(({ op }) => op));
    for (const lacking of ["FusedMatMul", "Sum", "LogSoftmax"]) expect(operators).not.toContain(lacking);
    const row = (length: number) => Float32Array.from({ length }, (_, i) => Math.sin(3 * i + 1));
    const feeds = { x: tensor(row(30), [6, 5]), gain: tensor(row(5), [5]) };
    const [wanted, found] = [
      await (await openGraphSession(traced, CPU)).run({}, feeds),
      await (await openGraphSession(rewritten, CPU)).run({}, feeds),
    ];
    expect(Object.keys(wanted)).toHaveLength(9);
    for (const [name, values] of Object.entries(wanted)) expect(distance(found[name], values), name).toBeLessThan(1e-6);
  });
});

describe.skipIf(!ON_WEBGPU.test(webgpu))(`on WebGPU (${webgpu})`, () => gpuContract("webgpu"));
describe.skipIf(!hasExactCuda)("on CUDA", () => gpuContract("cuda"));

function gpuContract(gpu: ExecutionProvider): void {
  const options = { ...OPTIONS, provider: gpu };
  const subject = { engine: compiledEngine, files: tinyCheckpoint(), options: { ...options, contextTokens: 90 } };
  describe("trainer", () => trainerContract(subject));
  describe("sampler", () => samplerContract({ ...subject, roundingDependsOnBatch: true }));

  test.each<[string, CheckpointFiles, Partial<EngineOptions>]>([
    ["all weights", tinyCheckpoint(TINY, 3), {}],
    ["all weights, layer by layer", tinyCheckpoint(UNTIED, 3), LAYERED],
    ["all weights, with biases", tinyCheckpoint(BIASED, 3), {}],
    ["an adapter on some layers", tinyAdapter(TINY, SOME_LAYERS, 3), {}],
    ["an adapter on every layer", tinyAdapter(BIASED, LORA, 3), {}],
  ])("loss and gradients match the CPU's: %s", async (_name, files, changes) => {
    const passOn = async (provider: ExecutionProvider) => {
      const trainer = await compiledEngine.openTrainer(files, { ...OPTIONS, ...changes, provider });
      const { loss } = await trainer.forwardBackward(BATCH, LOSS, 0.9);
      const { gradientNorm } = await trainer.optimizerStep(ADAM);
      const saved = await trainer.save();
      await trainer.close();
      return { loss, gradientNorm, moments: floats(saved.get("optimizer.safetensors")) };
    };
    const [found, wanted] = [await passOn(gpu), await passOn("cpu")];
    expect(found.loss).toBeCloseTo(wanted.loss, 5);
    expect(found.gradientNorm).toBeCloseTo(wanted.gradientNorm, 4);
    expect(distance(found.moments, wanted.moments)).toBeLessThan(1e-4);
  });

  test.each(checkpointNames)("%s, from disk and from memory, generates what transformers does", async (name) => {
    const { sequences, greedy } = referenceOf(name);
    for (const files of [localFiles(name), checkpointFiles(name)]) {
      const sampler = await compiledEngine.openSampler(files, { ...options, contextTokens: 64 });
      const sample = await sampler.sample({
        ...{ sequence: name, tokens: sequences[0] ?? [], maxTokens: greedy.tokens.length, stop: [], stream: [name] },
        sampling: { temperature: 0, topP: 1, topK: 0 },
      });
      expect(sample.tokens).toEqual(greedy.tokens);
      await sampler.close();
    }
  });
}

/** With beta1 = 0, the first moment after one unclipped step is the gradient. */
const ADAM = { learningRate: 1e-9, beta1: 0, beta2: 0, epsilon: 1, weightDecay: 0, maxGradientNorm: 1e9 };

/** The numbers after the header of a safetensors file. */
function floats(file: Uint8Array | undefined): Float32Array {
  if (!file) throw new Error("the trainer saved no optimizer state");
  const begin = 8 + Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
  return new Float32Array(Uint8Array.from(file.subarray(begin)).buffer);
}

/** Relative to the norm of `wanted`. */
function distance(found: Float32Array | undefined, wanted: Float32Array): number {
  const norm = (values: Float32Array) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return norm(wanted.map((value, i) => value - (found?.[i] ?? Number.NaN))) / norm(wanted);
}
