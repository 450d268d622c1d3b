/**
 * @file Halves in a graph that was traced in float32: weights that lie in their file as such, and products in bfloat16.
 *
 *     a weight   gets a Cast where it is read, so that the runtime maps it as it is and holds its float32 only while it is read. Rows are
 *                looked up first and cast after
 *     a product  in bf16 reads bfloat16, a weight that lies as that as it is, and its result is cast back
 */
import type { Precision } from "../../../core/contracts/engine.ts";
import type { Attribute, ExternalTensors, Graph, GraphNode } from "./serialize.ts";

/** TensorProto.DataType */
const FLOAT = 1;
const BFLOAT16 = 16;

export interface HalfPrecisionOptions {
  /** False: a Cast is of a whole weight, which the runtime folds while it opens the session. */
  readonly rowsFirst: boolean;
  readonly precision: Precision;
  /** Whether the provider multiplies bfloat16. If not, what a product reads and makes is rounded to it: the same numbers. */
  readonly multipliesHalves: boolean;
}

const typeOf = (external: ExternalTensors, name: string) => external.get(name)?.type ?? "float32";
export const isHalfPrecision = (external: ExternalTensors, name: string): boolean =>
  typeOf(external, name) !== "float32";
const isProduct = ({ op, exact = false }: GraphNode): boolean => (op === "MatMul" || op === "FusedMatMul") && !exact;

/**
 * The Casts of whole weights come first in a graph's list: of what a node waits for, the runtime computes what is listed last before the
 * rest, so a weight is widened when the node's other inputs are there, and not before.
 */
export function withHalfPrecision(graph: Graph, external: ExternalTensors, halves: HalfPrecisionOptions): Graph {
  const { rowsFirst, precision, multipliesHalves } = halves;
  const widened = new Map<string, GraphNode>();
  const made = new Set<string>();
  const wide = (name: string) => {
    if (!isHalfPrecision(external, name)) return name;
    const float = `${name}:float32`;
    widened.set(name, cast(name, float, FLOAT));
    return float;
  };
  const product = (node: GraphNode): GraphNode[] => {
    const [output = ""] = node.outputs;
    const nodes: GraphNode[] = [];
    /** A value that many products read is cast once. */
    const castOnce = (from: string, to: string, type: number) => {
      if (!made.has(to)) nodes.push(cast(from, to, type));
      made.add(to);
      return to;
    };
    const inputs = node.inputs.map((name) => {
      const half = typeOf(external, name) === "bfloat16" ? name : castOnce(name, `${name}:bfloat16`, BFLOAT16);
      if (multipliesHalves) return half;
      return half === name ? wide(name) : castOnce(half, `${name}:rounded`, FLOAT);
    });
    const [result, half] = [`${output}:product`, `${output}:half`];
    nodes.push({ ...node, inputs, outputs: [multipliesHalves ? half : result] });
    if (!multipliesHalves) nodes.push(cast(result, half, BFLOAT16));
    return [...nodes, cast(half, output, FLOAT)];
  };
  const nodes = graph.nodes.flatMap((node): GraphNode[] => {
    const [first = ""] = node.inputs;
    const [output = ""] = node.outputs;
    if (precision === "bf16" && isProduct(node)) return product(node);
    if (rowsFirst && node.op === "Gather" && isHalfPrecision(external, first)) {
      const rows = `${output}:rows`;
      return [{ ...node, outputs: [rows] }, cast(rows, output, FLOAT)];
    }
    const inside = ([name, value]: [string, Attribute]) =>
      typeof value === "object" && "graph" in value
        ? [name, { graph: withHalfPrecision(value.graph, external, halves) }]
        : [name, value];
    const attributes = Object.fromEntries(Object.entries(node.attributes).map(inside));
    return [{ ...node, inputs: node.inputs.map(wide), attributes }];
  });
  return { ...graph, nodes: [...widened.values(), ...nodes] };
}

const cast = (from: string, output: string, to: number): GraphNode => ({
  ...{ op: "Cast", domain: "", inputs: [from], outputs: [output], attributes: { to } },
});
