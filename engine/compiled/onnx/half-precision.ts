/**
 * @file Half precision in a graph that was traced in float32: weights stored in half precision, and matrix products in bfloat16.
 *
 *     a weight   is cast to float32 in the graph. Unless the runtime folds the Cast, it maps the weight as stored and holds the float32 copy only
 *                while it is in use. With `gathersBeforeCast`, embedding rows are gathered first and cast afterward
 *     a product  under `precision: bf16`, unless it is `exact`, reads bfloat16 (a stored bfloat16 weight as it is), or float32 rounded to it
 *                if the provider cannot multiply bfloat16; its result is cast back
 */
import type { Precision } from "../../../core/contracts/engine.ts";
import { type Attribute, DATA_TYPES, type ExternalTensors, type Graph, type GraphNode } from "./serialize.ts";

export interface HalfPrecisionOptions {
  /** Whether rows are gathered from a weight before they are cast. False: whole weights are cast, and the runtime folds these Casts. */
  readonly gathersBeforeCast: boolean;
  readonly precision: Precision;
  /** Whether the provider multiplies bfloat16. If not, inputs and results of products are rounded to it: equal up to the order of summation. */
  readonly multipliesBfloat16: boolean;
}

type CastType = "float32" | "bfloat16";

const typeOf = (external: ExternalTensors, name: string) => external.get(name)?.type ?? "float32";
export const isHalfPrecision = (external: ExternalTensors, name: string): boolean =>
  typeOf(external, name) !== "float32";
const isProduct = ({ op, exact = false }: GraphNode): boolean => (op === "MatMul" || op === "FusedMatMul") && !exact;

export function withHalfPrecision(graph: Graph, external: ExternalTensors, options: HalfPrecisionOptions): Graph {
  return new HalfPrecisionRewrite(external, options).graph(graph);
}

class HalfPrecisionRewrite {
  readonly #external: ExternalTensors;
  readonly #options: HalfPrecisionOptions;
  /** The Cast of each whole weight, by the weight's name. */
  readonly #widened = new Map<string, GraphNode>();
  /** Outputs of the Casts added so far: a value that several products read is cast once. */
  readonly #cast = new Set<string>();

  constructor(external: ExternalTensors, options: HalfPrecisionOptions) {
    this.#external = external;
    this.#options = options;
  }

  /**
   * Casts of whole weights come first in the node list: the runtime computes a node's inputs in reverse list order, so a weight is
   * widened only when the node's other inputs are ready.
   */
  graph(graph: Graph): Graph {
    const nodes = graph.nodes.flatMap((node) => this.#node(node));
    return { ...graph, nodes: [...this.#widened.values(), ...nodes] };
  }

  #node(node: GraphNode): GraphNode[] {
    const [first = ""] = node.inputs;
    const [output = ""] = node.outputs;
    const { precision, gathersBeforeCast } = this.#options;
    if (precision === "bf16" && isProduct(node)) return this.#product(node);
    if (gathersBeforeCast && node.op === "Gather" && isHalfPrecision(this.#external, first)) {
      const rows = `${output}:rows`;
      return [{ ...node, outputs: [rows] }, cast(rows, output, "float32")];
    }
    const attributes = Object.fromEntries(Object.entries(node.attributes).map((entry) => this.#attribute(entry)));
    return [{ ...node, inputs: node.inputs.map((name) => this.#wide(name)), attributes }];
  }

  #attribute([name, value]: [string, Attribute]): [string, Attribute] {
    if (typeof value !== "object" || !("graph" in value)) return [name, value];
    return [name, { graph: withHalfPrecision(value.graph, this.#external, this.#options) }];
  }

  #product(node: GraphNode): GraphNode[] {
    const { multipliesBfloat16 } = this.#options;
    const [output = ""] = node.outputs;
    const casts: GraphNode[] = [];
    const inputs = node.inputs.map((name) => this.#productInput(name, casts));
    const [result, half] = [`${output}:product`, `${output}:half`];
    const product = { ...node, inputs, outputs: [multipliesBfloat16 ? half : result] };
    const rounding = multipliesBfloat16 ? [] : [cast(result, half, "bfloat16")];
    return [...casts, product, ...rounding, cast(half, output, "float32")];
  }

  /** The name that a product reads in place of `name`; adds the Casts it needs. */
  #productInput(name: string, casts: GraphNode[]): string {
    const isBfloat16 = typeOf(this.#external, name) === "bfloat16";
    const half = isBfloat16 ? name : this.#castOnce(casts, name, `${name}:bfloat16`, "bfloat16");
    if (this.#options.multipliesBfloat16) return half;
    return isBfloat16 ? this.#wide(name) : this.#castOnce(casts, half, `${name}:rounded`, "float32");
  }

  #castOnce(casts: GraphNode[], from: string, to: string, type: CastType): string {
    if (!this.#cast.has(to)) casts.push(cast(from, to, type));
    this.#cast.add(to);
    return to;
  }

  /** The name under which a node reads a value in float32; adds the Cast that a half-precision weight needs. */
  #wide(name: string): string {
    if (!isHalfPrecision(this.#external, name)) return name;
    const float = `${name}:float32`;
    this.#widened.set(name, cast(name, float, "float32"));
    return float;
  }
}

const cast = (from: string, output: string, to: CastType): GraphNode => ({
  op: "Cast",
  domain: "",
  inputs: [from],
  outputs: [output],
  attributes: { to: DATA_TYPES[to] },
});
