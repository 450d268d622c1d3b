/**
 * @file A traced graph over a quantized base. A node reads a weight, scale * (code - zero point), in one of two ways:
 *
 *     a sampler's product  becomes MatMulNBits, which reads codes and scales. Where the session packs them, accuracy_level 4 also
 *                          rounds each row's activations to 8 bits, in blocks of 32, and multiplies integers. Elsewhere the
 *                          activations stay in float32, and the whole matrix is dequantized in every product
 *     any other node       (in a trainer, products too) reads the result of DequantizeLinear, a float32 copy that exists only while
 *                          it is in use
 */
import { BLOCK, codeBytes } from "../quantization/blocks.ts";
import type { QuantizedBase, QuantizedTensor } from "../quantization/quantized-base.ts";
import {
  CONTRIB,
  type ExternalTensor,
  type ExternalTensors,
  type Graph,
  type GraphNode,
  type Port,
} from "./serialize.ts";

export interface QuantizedGraph {
  readonly graph: Graph;
  /** Codes, scales and zero points. */
  readonly external: ExternalTensors;
}

const INT8_ACTIVATIONS = 4;
const FLOAT_BYTES = 4;

/** `multipliesCodes`: products read codes. Otherwise they too read dequantized weights. */
export function withQuantizedBase(graph: Graph, base: QuantizedBase, multipliesCodes: boolean): QuantizedGraph {
  const rewrite = new QuantizedRewrite(base, multipliesCodes);
  return { graph: rewrite.graph(graph), external: rewrite.external };
}

class QuantizedRewrite {
  readonly external = new Map<string, ExternalTensor>();
  readonly #base: QuantizedBase;
  readonly #tensors: ReadonlyMap<string, QuantizedTensor>;
  readonly #multipliesCodes: boolean;
  /** Keyed by weight. */
  readonly #dequantized = new Map<string, GraphNode>();

  constructor(base: QuantizedBase, multipliesCodes: boolean) {
    this.#base = base;
    this.#tensors = new Map(base.tensors.map((tensor) => [tensor.name, tensor]));
    this.#multipliesCodes = multipliesCodes;
  }

  /** Dequantized weights come first in the node list, as widened ones do (half-precision.ts): then few exist at a time. */
  graph(graph: Graph): Graph {
    const nodes = graph.nodes.map((node) => this.#node(node));
    const others = graph.inputs.filter(({ name }) => !this.#tensors.has(name));
    const added = [...this.external].map(([name, { type, dims }]): Port => ({ name, type, dims }));
    return { ...graph, nodes: [...this.#dequantized.values(), ...nodes], inputs: [...others, ...added] };
  }

  #node(node: GraphNode): GraphNode {
    const weight = this.#tensors.get(node.inputs[1] ?? "");
    if (this.#multipliesCodes && weight && isRowsTimesWeight(node)) return this.#product(node, weight);
    return { ...node, inputs: node.inputs.map((name) => this.#readable(name)) };
  }

  #product(node: GraphNode, { name, outputs, inputs, codesOffset, scalesOffset }: QuantizedTensor): GraphNode {
    const { bits } = this.#base;
    const blocks = inputs / BLOCK;
    const blob = codeBytes(BLOCK, bits);
    const [x = ""] = node.inputs;
    return {
      op: "MatMulNBits",
      domain: CONTRIB,
      inputs: [
        x,
        this.#add(`${name}:codes`, "uint8", codesOffset, codeBytes(outputs * inputs, bits), [outputs, blocks, blob]),
        this.#add(`${name}:scales`, "float32", scalesOffset, FLOAT_BYTES * outputs * blocks, [outputs, blocks]),
      ],
      outputs: node.outputs,
      attributes: { K: inputs, N: outputs, bits, block_size: BLOCK, accuracy_level: INT8_ACTIVATIONS },
    };
  }

  /** The name of the weight's float32 values; other names unchanged. */
  #readable(name: string): string {
    const tensor = this.#tensors.get(name);
    if (!tensor) return name;
    const values = `${name}:dequantized`;
    if (this.#dequantized.has(name)) return values;
    const { bits, zerosOffset } = this.#base;
    const { outputs, inputs, codesOffset, scalesOffset } = tensor;
    const blocks = inputs / BLOCK;
    const type = bits === 4 ? "uint4" : "uint8";
    this.#dequantized.set(name, {
      op: "DequantizeLinear",
      domain: "",
      inputs: [
        this.#add(`${name}:codes`, type, codesOffset, codeBytes(outputs * inputs, bits), [outputs, inputs]),
        this.#add(`${name}:scales`, "float32", scalesOffset, FLOAT_BYTES * outputs * blocks, [outputs, blocks]),
        this.#add(`${name}:zeros`, type, zerosOffset, Math.ceil(codeBytes(outputs * blocks, bits)), [outputs, blocks]),
      ],
      outputs: [values],
      attributes: { axis: 1, block_size: BLOCK },
    });
    return values;
  }

  #add(name: string, type: ExternalTensor["type"], offset: number, bytes: number, dims: number[]): string {
    this.external.set(name, { type, path: this.#base.path, offset, bytes, dims });
    return name;
  }
}

/** x [rows, in] times a weight [out, in]. */
const isRowsTimesWeight = ({ op, attributes, ranks }: GraphNode): boolean =>
  op === "FusedMatMul" && attributes["transA"] === 0 && attributes["transB"] === 1 && ranks?.[0] === 2;
