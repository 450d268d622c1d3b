/**
 * @file Norms as the WebGPU provider computes them rightly: it writes the mean where SimplifiedLayerNormalization is asked for 1 / rms(x)
 * (onnxruntime 1.30, core/providers/webgpu/nn/layer_norm.cc), and every gradient of a norm would be wrong. There 1 / rms(x) is nodes of its own.
 */
import type { Attribute, Constant, Graph, GraphNode } from "./serialize.ts";

const LAST_AXIS: Constant = { name: "norms:last", type: "int64", dims: [1], values: [-1] };

/** The graph with 1 / rms(x) computed beside every norm that is asked for it. */
export function withOwnRms(graph: Graph): Graph {
  const constants = new Map<string, Constant>();
  const nodes = graph.nodes.flatMap((node): GraphNode[] => {
    const [y, r] = node.outputs;
    if (node.op !== "SimplifiedLayerNormalization" || y === undefined || r === undefined) return [node];
    const epsilon = floatOf(node.attributes["epsilon"]);
    const name = `norms:epsilon:${epsilon}`;
    for (const one of [LAST_AXIS, { name, type: "float32", dims: [], values: [epsilon] } as const]) {
      constants.set(one.name, one);
    }
    const [x = ""] = node.inputs;
    const step = (op: string, inputs: readonly string[], output: string): GraphNode => {
      return { op, domain: "", inputs, outputs: [output], attributes: {} };
    };
    return [
      { ...node, outputs: [y] },
      step("Mul", [x, x], `${r}:squares`),
      step("ReduceMean", [`${r}:squares`, LAST_AXIS.name], `${r}:mean`),
      step("Add", [`${r}:mean`, name], `${r}:shifted`),
      step("Sqrt", [`${r}:shifted`], `${r}:rms`),
      step("Reciprocal", [`${r}:rms`], r),
    ];
  });
  return { ...graph, nodes, constants: [...graph.constants, ...constants.values()] };
}

function floatOf(attribute: Attribute | undefined): number {
  if (typeof attribute !== "object" || !("float" in attribute)) throw new Error("a norm lacks its epsilon");
  return attribute.float;
}
