/** @file The epsilon of the norms. In the models of other tests, it is too small to have a visible effect. */
import type * as tf from "@tensorflow/tfjs-core";
import { expect, test } from "vitest";
import type { PolicyEngine } from "../../core/ports.ts";
import { initializeWeights } from "../../engine/checkpoint/initialize.ts";
import { parameterLayout, views } from "../../engine/checkpoint/parameters.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { writeModel } from "../../engine/checkpoint/weights.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { openGraphSession, tensor } from "../../engine/compiled/graph-session.ts";
import { forWebGpu } from "../../engine/compiled/onnx/webgpu.ts";
import { traceGraph } from "../../engine/compiled/trace/trace.ts";
import { eagerEngine } from "../../engine/eager/engine.ts";
import { rmsNorm } from "../../engine/model/kernels.ts";
import { OPTIONS, tinyCheckpoint, UNTIED } from "./tiny.ts";

test("a norm adds epsilon to the mean square, in the graph for the CPU and in that for WebGPU", async () => {
  const traced = traceGraph("norm", (scope) => {
    const [x, gain] = [scope.input<tf.Tensor2D>("x", [2, 2]), scope.input<tf.Tensor1D>("gain", [2])];
    scope.output("y", rmsNorm(x, gain, 12.5));
  });
  const feeds = { x: tensor(Float32Array.of(3, 4, 0, 5), [2, 2]), gain: tensor(Float32Array.of(1, 10), [2]) };
  for (const graph of [traced.graph, forWebGpu(traced.graph)]) {
    const session = await openGraphSession({ ...traced, graph }, { threads: 1, provider: "cpu" });
    // (9 + 16) / 2 = (0 + 25) / 2 = 12.5, and the root of 12.5 + 12.5 is 5.
    const { y = [] } = await session.run({}, feeds);
    expect([...y]).toEqual([0.6, 8, 0, 10].map((value) => expect.closeTo(value, 5)));
    await session.release();
  }
});

/** A model with this epsilon. The weights that write what a norm reads are multiplied by `scale`. */
function modelOf(epsilon: number, scale = 1) {
  const config = { ...UNTIED, epsilon };
  const layout = parameterLayout(config);
  const weights = initializeWeights(config, 5);
  for (const [name, view] of views(layout, weights)) {
    if (/embed_tokens|(q|k|o|down)_proj/.test(name)) view.set(view.map((value) => scale * value));
  }
  return tinyCheckpoint(config).set(MODEL_FILE, writeModel(layout, weights));
}

const SEQUENCE = [3, 1, 4, 1, 5, 9];

async function logProbsOf(engine: PolicyEngine, files: ReturnType<typeof modelOf>): Promise<number[]> {
  const [trainer, sampler] = [await engine.openTrainer(files, OPTIONS), await engine.openSampler(files, OPTIONS)];
  const [scored = new Float32Array()] = await trainer.logProbs([SEQUENCE], 1);
  const sampling = { temperature: 0, topP: 1, topK: 0 };
  const request = { sequence: "s", tokens: SEQUENCE, maxTokens: 4, stop: [], stream: ["s"], sampling };
  const sample = await sampler.sample(request);
  await Promise.all([trainer.close(), sampler.close()]);
  return [...scored.subarray(1), ...sample.logProbs];
}

test.each<[string, PolicyEngine]>([
  ["compiled", compiledEngine],
  ["eager", eagerEngine],
])(
  "%s: log-probs stay the same if what the norms read is doubled and the epsilon of config.json quadrupled",
  async (_name, engine) => {
    const expected = await logProbsOf(engine, modelOf(0.1));
    expect(await logProbsOf(engine, modelOf(0.4, 2))).toEqual(expected.map((value) => expect.closeTo(value, 4)));
    const other = await logProbsOf(engine, modelOf(0.4));
    expect(Math.max(...other.map((value, i) => Math.abs(value - (expected[i] ?? Number.NaN))))).toBeGreaterThan(0.01);
  },
);
