/**
 * @file Products in bfloat16: which ones, and their results. The CPU, which cannot multiply bfloat16, rounds inputs and results of products to it,
 * so a GPU's results can be tested without one.
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
const isProduct = ({ op }: GraphNode) => op === "MatMul" || op === "FusedMatMul";
const bodiesOf = ({ attributes }: GraphNode): Graph[] =>
  Object.values(attributes).flatMap((value: Attribute) =>
    typeof value === "object" && "graph" in value ? [value.graph] : [],
  );
const flat = (nodes: readonly GraphNode[]): GraphNode[] =>
  nodes.flatMap((node) => [node, ...bodiesOf(node).flatMap((body) => flat(body.nodes))]);
/** What each value is cast to, where it is made by a Cast. */
const castsOf = (nodes: readonly GraphNode[]) =>
  new Map(nodes.flatMap(({ op, outputs, attributes }) => (op === "Cast" ? [[outputs[0], attributes["to"]]] : [])));

test.each([
  ["training", traceTrain("sequences")({ config: TINY, lora: null }).graph],
  ["decoding in blocks", traceBlock({ config: TINY, lora: null }).graph],
])("%s: products read and write bfloat16, except logits and sums", (_name, traced) => {
  const nodes = flat(withHalfPrecision(traced, new Map(), ON_GPU).nodes);
  const casts = castsOf(nodes);
  const products = nodes.filter(isProduct);
  expect(products).toHaveLength(flat(traced.nodes).filter(isProduct).length);
  const [exact, narrow] = [products.filter((node) => node.exact), products.filter((node) => !node.exact)];
  expect(narrow.length).toBeGreaterThan(TINY.layers * 9);
  for (const { inputs } of exact) for (const name of inputs) expect(casts.get(name)).not.toBe(BFLOAT16);
  for (const { inputs, outputs } of narrow) {
    for (const name of inputs) expect(casts.get(name)).toBe(BFLOAT16);
    const readers = nodes.filter((node) => node.inputs.includes(outputs[0] ?? ""));
    expect(readers.map(({ op, attributes }) => [op, attributes["to"]])).toEqual([["Cast", FLOAT]]);
  }
  const made = nodes.flatMap(({ outputs }) => outputs);
  expect(new Set(made).size).toBe(made.length);
});

test("the logits are exact in both graphs, and in training the sums of norms and loss", () => {
  const exactOf = ({ nodes }: Graph) => flat(nodes).filter((node) => isProduct(node) && node.exact).length;
  expect(exactOf(traceBlock({ config: TINY, lora: null }).graph)).toBe(1);
  const norms = TINY.layers * 4 + 1;
  expect(exactOf(traceTrain("sequences")({ config: TINY, lora: null }).graph)).toBeGreaterThanOrEqual(1 + 2 * norms);
});

test("a bfloat16 weight is multiplied as stored, a float16 weight is cast, and rows of both are looked up first", () => {
  const stored = (type: "float16" | "bfloat16") => ({ type, path: "/m", offset: 0, bytes: 32, dims: [4, 4] });
  const external: ExternalTensors = new Map([
    ["near", stored("bfloat16")],
    ["far", stored("float16")],
  ]);
  const traced = traceGraph("stored", (scope) => {
    const [near, far] = [scope.input<tf.Tensor2D>("near", [4, 4]), scope.input<tf.Tensor2D>("far", [4, 4])];
    const x = scope.input<tf.Tensor2D>("x", [3, 4]);
    scope.output("product", tf.matMul(tf.matMul(x, near), far));
    scope.output("rows", tf.gather(near, scope.input<tf.Tensor1D>("ids", [2], "int32")));
    scope.output("wide", tf.add(far, near));
  });
  const { nodes } = withHalfPrecision(traced.graph, external, ON_GPU);
  const [first, second] = nodes.filter(isProduct);
  expect(first?.inputs).toEqual(["x:bfloat16", "near"]);
  expect(second?.inputs[1]).toBe("far:bfloat16");
  expect(nodes.find(({ op }) => op === "Gather")?.inputs[0]).toBe("near");
  expect(nodes.find(({ op }) => op === "Add")?.inputs).toEqual(["far:float32", "near:float32"]);
});

test("a product's inputs and result are rounded to bfloat16, its sums are not", async () => {
  const traced = traceGraph("rounded", (scope) => {
    const [a, b] = [scope.input<tf.Tensor2D>("a", [4, 32]), scope.input<tf.Tensor2D>("b", [5, 32])];
    scope.output("product", tf.matMul(a, b, false, true));
    scope.output("sum", tf.matMul(tf.slice2d(a, [0, 0], [1, 32]), b, false, true));
  });
  const row = (length: number, phase: number) => Float32Array.from({ length }, (_, i) => Math.sin(3 * i + phase));
  const [a, b] = [row(128, 1), row(160, 2)];
  const session = await openGraphSession(traced, { threads: 1, provider: "cpu", precision: "bf16" });
  const found = await session.run({}, { a: tensor(a, [4, 32]), b: tensor(b, [5, 32]) });
  const product = (x: Float32Array, y: Float32Array, i: number, j: number) =>
    Array.from({ length: 32 }, (_, k) => (x[32 * i + k] ?? 0) * (y[32 * j + k] ?? 0)).reduce(
      (sum, term) => sum + term,
      0,
    );
  const [ra, rb] = [rounded(a), rounded(b)];
  const wanted = rounded(Float32Array.from({ length: 20 }, (_, i) => product(ra, rb, Math.floor(i / 5), i % 5)));
  expect(found["product"]).toEqual(wanted);
  found["sum"]?.forEach((value, j) => {
    expect(value).toBeCloseTo(product(a, b, 0, j), 5);
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
])("log-probs and gradients match fp32 within rounding: %s", async (_name, files) => {
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

/** Through bfloat16 and back. */
function rounded(values: Float32Array): Float32Array {
  return new Float32Array(Uint32Array.from(toBfloat16(values), (half) => half << 16).buffer);
}
