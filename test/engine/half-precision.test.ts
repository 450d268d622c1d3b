/**
 * @file Half precision: which matmuls are in bfloat16, their results, and the casts of weights stored in half precision. The CPU provider
 * cannot multiply bfloat16: there, inputs and results of matmuls are rounded to it, so a GPU's numerics can be tested without a GPU.
 */
import * as tf from "@tensorflow/tfjs-core";
import { expect, test } from "vitest";
import type { CheckpointFiles, TrainingSequence } from "../../core/ports.ts";
import { toBfloat16 } from "../../engine/checkpoint/safetensors.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { openGraphSession, tensor } from "../../engine/compiled/graph-session.ts";
import { traceBlock } from "../../engine/compiled/graphs/block.ts";
import { traceTrain } from "../../engine/compiled/graphs/train.ts";
import { withHalfPrecision } from "../../engine/compiled/onnx/half-precision.ts";
import type { Attribute, ExternalTensors, Graph, GraphNode } from "../../engine/compiled/onnx/serialize.ts";
import { traceGraph } from "../../engine/compiled/trace/trace.ts";
import { OPTIONS, TINY, tinyAdapter, tinyCheckpoint } from "./tiny.ts";

const FLOAT = 1;
const BFLOAT16 = 16;
const ON_GPU = { gathersBeforeCast: true, precision: "bf16", multipliesBfloat16: true } as const;
const ON_CUDA = { ...OPTIONS, provider: "cuda" } as const;
const isMatmul = ({ op }: GraphNode) => op === "MatMul" || op === "FusedMatMul";
const bodiesOf = ({ attributes }: GraphNode): Graph[] =>
  Object.values(attributes).flatMap((value: Attribute) =>
    typeof value === "object" && "graph" in value ? [value.graph] : [],
  );
const flat = (nodes: readonly GraphNode[]): GraphNode[] =>
  nodes.flatMap((node) => [node, ...bodiesOf(node).flatMap((body) => flat(body.nodes))]);
/** Output of each Cast -> the type that it casts to. */
const castsOf = (nodes: readonly GraphNode[]) =>
  new Map(nodes.flatMap(({ op, outputs, attributes }) => (op === "Cast" ? [[outputs[0], attributes["to"]]] : [])));

test.each([
  ["training", traceTrain("sequences")({ config: TINY, lora: null }).graph],
  ["decoding in blocks", traceBlock({ config: TINY, lora: null }, ON_CUDA).graph],
])("%s: matmuls read and write bfloat16, except for logits and sums", (_name, traced) => {
  const nodes = flat(withHalfPrecision(traced, new Map(), ON_GPU).nodes);
  const casts = castsOf(nodes);
  const matmuls = nodes.filter(isMatmul);
  expect(matmuls).toHaveLength(flat(traced.nodes).filter(isMatmul).length);
  const [exact, narrow] = [matmuls.filter((node) => node.exact), matmuls.filter((node) => !node.exact)];
  expect(narrow.length).toBeGreaterThan(TINY.layers * 9);
  for (const { inputs } of exact) for (const name of inputs) expect(casts.get(name)).not.toBe(BFLOAT16);
  for (const { inputs, outputs } of narrow) {
    for (const name of inputs) expect(casts.get(name)).toBe(BFLOAT16);
    const readers = nodes.filter((node) => node.inputs.includes(outputs[0] ?? ""));
    expect(readers.map(({ op, attributes }) => [op, attributes["to"]])).toEqual([["Cast", FLOAT]]);
  }
  const written = nodes.flatMap(({ outputs }) => outputs);
  expect(new Set(written).size).toBe(written.length);
});

test("logits stay in fp32 in decoding and training, and in training so do the two sums in the gradient of each norm", () => {
  const exactOf = ({ nodes }: Graph) => flat(nodes).filter((node) => isMatmul(node) && node.exact).length;
  expect(exactOf(traceBlock({ config: TINY, lora: null }, ON_CUDA).graph)).toBe(1);
  const norms = TINY.layers * 4 + 1;
  expect(exactOf(traceTrain("sequences")({ config: TINY, lora: null }).graph)).toBeGreaterThanOrEqual(1 + 2 * norms);
});

test("a stored bfloat16 weight is multiplied as it is, a float16 weight is cast, and rows are gathered before they are cast", () => {
  const stored = (type: "float16" | "bfloat16") => ({ type, path: "/m", offset: 0, bytes: 32, dims: [4, 4] });
  const external: ExternalTensors = new Map([
    ["bf16Weight", stored("bfloat16")],
    ["fp16Weight", stored("float16")],
  ]);
  const traced = traceGraph("stored", (scope) => {
    const bf16Weight = scope.input<tf.Tensor2D>("bf16Weight", [4, 4]);
    const fp16Weight = scope.input<tf.Tensor2D>("fp16Weight", [4, 4]);
    const x = scope.input<tf.Tensor2D>("x", [3, 4]);
    scope.output("product", tf.matMul(tf.matMul(x, bf16Weight), fp16Weight));
    scope.output("rows", tf.gather(bf16Weight, scope.input<tf.Tensor1D>("ids", [2], "int32")));
    scope.output("sum", tf.add(fp16Weight, bf16Weight));
  });
  const { nodes } = withHalfPrecision(traced.graph, external, ON_GPU);
  const [first, second] = nodes.filter(isMatmul);
  expect(first?.inputs).toEqual(["x:bfloat16", "bf16Weight"]);
  expect(second?.inputs[1]).toBe("fp16Weight:bfloat16");
  expect(nodes.find(({ op }) => op === "Gather")?.inputs[0]).toBe("bf16Weight");
  expect(nodes.find(({ op }) => op === "Add")?.inputs).toEqual(["fp16Weight:float32", "bf16Weight:float32"]);
});

test("a matmul's inputs and result are rounded to bfloat16, unless the result is a single row or column", async () => {
  const traced = traceGraph("rounded", (scope) => {
    const [a, b] = [scope.input<tf.Tensor2D>("a", [4, 32]), scope.input<tf.Tensor2D>("b", [5, 32])];
    scope.output("product", tf.matMul(a, b, false, true));
    scope.output("row", tf.matMul(tf.slice2d(a, [0, 0], [1, 32]), b, false, true));
    scope.output("column", tf.matMul(a, tf.slice2d(b, [0, 0], [1, 32]), false, true));
  });
  const row = (length: number, phase: number) => Float32Array.from({ length }, (_, i) => Math.sin(3 * i + phase));
  const [a, b] = [row(128, 1), row(160, 2)];
  const session = await openGraphSession(traced, { threads: 1, provider: "cpu", precision: "bf16" });
  const found = await session.run({}, { a: tensor(a, [4, 32]), b: tensor(b, [5, 32]) });
  const dot = (x: Float32Array, y: Float32Array, i: number, j: number) =>
    Array.from({ length: 32 }, (_, k) => (x[32 * i + k] ?? 0) * (y[32 * j + k] ?? 0)).reduce(
      (sum, term) => sum + term,
      0,
    );
  const [ra, rb] = [rounded(a), rounded(b)];
  const wanted = rounded(Float32Array.from({ length: 20 }, (_, i) => dot(ra, rb, Math.floor(i / 5), i % 5)));
  expect(found["product"]).toEqual(wanted);
  expect(found["row"]).toHaveLength(5);
  found["row"]?.forEach((value, j) => {
    expect(value).toBeCloseTo(dot(a, b, 0, j), 5);
  });
  expect(found["column"]).toHaveLength(4);
  found["column"]?.forEach((value, i) => {
    expect(value).toBeCloseTo(dot(a, b, i, 0), 5);
  });
});

const LOSS = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 } as const;
const BATCH: TrainingSequence[] = [
  [3, 1, 4, 1, 5, 9, 2, 6],
  [5, 3, 5, 8],
].map((tokens, i) => ({
  tokens,
  weights_T: Float32Array.from(tokens, (_, t) => 0.1 * (t + i)),
  advantages_T: Float32Array.from(tokens, (_, t) => ((t + i) % 2 ? 1.5 : -0.7)),
  behaviorLogProbs_T: Float32Array.from(tokens, () => -3.6),
}));

test.each<[string, CheckpointFiles]>([
  ["all weights", tinyCheckpoint()],
  ["an adapter", tinyAdapter()],
])("log-probs and the gradient norm differ from fp32 by rounding only: %s", async (_name, files) => {
  const pass = async (precision: "fp32" | "bf16") => {
    const trainer = await compiledEngine.openTrainer(files, { ...OPTIONS, precision });
    const { logProbs } = await trainer.forwardBackward(BATCH, LOSS, 1);
    const { gradientNorm } = await trainer.optimizerStep(ADAM);
    await trainer.close();
    return [...logProbs.flatMap((row) => [...row.subarray(1)]), gradientNorm];
  };
  const [found, wanted] = [await pass("bf16"), await pass("fp32")];
  const relative = wanted.map((value, i) => Math.abs((found[i] ?? Number.NaN) - value) / Math.abs(value));
  expect(Math.max(...relative)).toBeLessThan(0.03);
  expect(Math.max(...relative)).toBeGreaterThan(1e-5);
});

const ADAM = { learningRate: 1e-4, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradientNorm: 1e9 };

/** Rounded to bfloat16. */
function rounded(values: Float32Array): Float32Array {
  return new Float32Array(Uint32Array.from(toBfloat16(values), (half) => half << 16).buffer);
}
