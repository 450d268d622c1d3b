/**
 * @file Rewrites a graph to operators that the WebGPU provider supports and computes correctly (onnxruntime 1.30). A
 * session with an unsupported operator does not open (graph-session.ts). The provider's norm returns the mean in place
 * of 1 / rms(x) (core/providers/webgpu/nn/layer_norm.cc), which makes every gradient wrong.
 */
import type { Attribute, Constant, Graph, GraphNode } from "./serialize.ts";

type Rewrite = (node: GraphNode, constant: (definition: Constant) => string) => GraphNode[];

const step = (op: string, inputs: readonly string[], output: string, attributes = {}): GraphNode => ({
  op,
  domain: "",
  inputs,
  outputs: [output],
  attributes,
});
const LAST_AXIS: Constant = { name: "webgpu:last", type: "int64", dims: [1], values: [-1] };

/** y and r = 1 / sqrt(mean(x^2) + epsilon), computed separately. */
const norm: Rewrite = (node, constant) => {
  const [x = ""] = node.inputs;
  const [y = "", r] = node.outputs;
  if (r === undefined) return [node];
  const epsilon = floatOf(node.attributes["epsilon"]);
  const shift = constant({ name: `webgpu:epsilon:${epsilon}`, type: "float32", dims: [], values: [epsilon] });
  return [
    { ...node, outputs: [y] },
    step("Mul", [x, x], `${r}:squares`),
    step("ReduceMean", [`${r}:squares`, constant(LAST_AXIS)], `${r}:mean`),
    step("Add", [`${r}:mean`, shift], `${r}:shifted`),
    step("Sqrt", [`${r}:shifted`], `${r}:rms`),
    step("Reciprocal", [`${r}:rms`], r),
  ];
};

/** Gemm transposes matrices while it multiplies; tensors of more dimensions are transposed first. */
const fusedMatMul: Rewrite = ({ inputs, outputs, attributes, ranks = [] }) => {
  const [output = ""] = outputs;
  const { transA, transB } = attributes;
  if (ranks.every((rank) => rank === 2)) return [step("Gemm", inputs, output, { transA, transB })];
  const nodes: GraphNode[] = [];
  const sides = inputs.map((name, i) => {
    if (attributes[i === 0 ? "transA" : "transB"] !== 1) return name;
    const transposed = `${output}:transposed:${i}`;
    const axes = Array.from({ length: ranks[i] ?? 2 }, (_, axis) => axis);
    const perm = [...axes.slice(0, -2), axes.length - 1, axes.length - 2];
    nodes.push(step("Transpose", [name], transposed, { perm }));
    return transposed;
  });
  return [...nodes, step("MatMul", sides, output)];
};

const sum: Rewrite = ({ inputs, outputs }) => {
  const [output = ""] = outputs;
  const [first = "", ...others] = inputs;
  if (others.length === 0) return [step("Identity", [first], output)];
  const partial = (i: number) => (i === others.length ? output : `${output}:sum:${i}`);
  return others.map((name, i) => step("Add", [i === 0 ? first : partial(i), name], partial(i + 1)));
};

/** x - max(x) - log(sum(exp(x - max(x)))) over the last axis. */
const logSoftmax: Rewrite = ({ inputs, outputs }, constant) => {
  const [y = ""] = outputs;
  const [x = ""] = inputs;
  const axis = constant(LAST_AXIS);
  return [
    step("ReduceMax", [x, axis], `${y}:max`),
    step("Sub", [x, `${y}:max`], `${y}:shifted`),
    step("Exp", [`${y}:shifted`], `${y}:exp`),
    step("ReduceSum", [`${y}:exp`, axis], `${y}:sum`),
    step("Log", [`${y}:sum`], `${y}:log`),
    step("Sub", [`${y}:shifted`, `${y}:log`], y),
  ];
};

const REWRITES: Readonly<Record<string, Rewrite>> = {
  SimplifiedLayerNormalization: norm,
  FusedMatMul: fusedMatMul,
  Sum: sum,
  LogSoftmax: logSoftmax,
};

export function forWebGpu(graph: Graph): Graph {
  const constants = new Map<string, Constant>();
  const constant = (definition: Constant) => {
    constants.set(definition.name, definition);
    return definition.name;
  };
  const nodes = graph.nodes.flatMap((node) => REWRITES[node.op]?.(node, constant) ?? [node]);
  return { ...graph, nodes, constants: [...graph.constants, ...constants.values()] };
}

function floatOf(attribute: Attribute | undefined): number {
  if (typeof attribute !== "object" || !("float" in attribute)) throw new Error("a norm lacks its epsilon");
  return attribute.float;
}
