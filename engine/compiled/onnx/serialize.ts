/** @file A graph as data, and its serialization to ONNX. */
import { relative } from "node:path";
import { onnx } from "./schema.ts";

export type ElementType = "float32" | "int32" | "int64" | "bool";
/** Element types of stored weights; uint4 has two elements per byte. */
export type StoredType = "float32" | "float16" | "bfloat16" | "uint8" | "uint4";
/** TensorProto.DataType */
export const DATA_TYPES: Readonly<Record<ElementType | StoredType, number>> = {
  float32: 1,
  uint8: 2,
  int32: 6,
  int64: 7,
  bool: 9,
  float16: 10,
  bfloat16: 16,
  uint4: 21,
};

/** An integer, integers, a float (marked, since 1 is also an integer), or the body of a loop. */
export type Attribute = number | readonly number[] | { readonly float: number } | { readonly graph: Graph };

export interface GraphNode {
  readonly op: string;
  /** Empty for standard ONNX. */
  readonly domain: string;
  /** An empty name omits an optional input. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, Attribute>>;
  /** Ranks of the inputs, where a rewrite of the graph needs them. */
  readonly ranks?: readonly number[];
  /** A matrix product that stays in fp32 when others run in bf16. */
  readonly exact?: boolean;
}

/** A graph input or output, or a value between nodes. A dimension is a fixed length or the name of a symbolic one. */
export interface Port {
  readonly name: string;
  /** Only stored weights have types that are not an `ElementType`. */
  readonly type: ElementType | StoredType;
  readonly dims: readonly (number | string)[];
}

export interface Constant {
  readonly name: string;
  readonly type: ElementType;
  readonly dims: readonly number[];
  readonly values: readonly number[];
}

export interface Graph {
  readonly name: string;
  readonly nodes: readonly GraphNode[];
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  readonly constants: readonly Constant[];
  /**
   * Shapes of values between nodes. The runtime reuses a freed buffer for a value that it knows to have the same
   * shape; it searches all freed buffers, which takes a long time in a large graph if none fits.
   */
  readonly values?: readonly Port[];
}

/** A tensor inside another file, which the runtime memory-maps. */
export interface ExternalTensor {
  readonly type: StoredType;
  readonly path: string;
  /** Bytes from the file's start. */
  readonly offset: number;
  readonly bytes: number;
  readonly dims: readonly number[];
}

/** Keyed by the name of the graph input that each replaces. */
export type ExternalTensors = ReadonlyMap<string, ExternalTensor>;

/** External tensor paths are relative to this folder, since the runtime rejects absolute ones. */
export const EXTERNAL_FOLDER = "/";

export const CONTRIB = "com.microsoft";
const OPSETS = [
  { domain: "", version: 24 },
  { domain: CONTRIB, version: 1 },
];
const IR_VERSION = 11;
/** TensorProto.DataLocation */
const EXTERNAL = 1;

/** `external` may include tensors that the graph does not read. */
export function serializeOnnx(graph: Graph, external: ExternalTensors): Uint8Array {
  const type = onnx.lookupType("ModelProto");
  return type
    .encode(
      type.create({
        irVersion: IR_VERSION,
        producerName: "mgrpo",
        opsetImport: OPSETS,
        graph: graphProto(graph, external),
      }),
    )
    .finish();
}

function graphProto(graph: Graph, external: ExternalTensors): object {
  return {
    name: graph.name,
    node: graph.nodes.map((node, index) => ({
      name: `${node.op}_${index}`,
      opType: node.op,
      domain: node.domain,
      input: node.inputs,
      output: node.outputs,
      attribute: Object.entries(node.attributes).map(([name, value]) => attribute(name, value)),
    })),
    initializer: [
      ...graph.constants.map((constant) => ({
        name: constant.name,
        dims: constant.dims,
        dataType: DATA_TYPES[constant.type],
        rawData: rawData(constant),
      })),
      ...graph.inputs.flatMap(({ name }) => {
        const tensor = external.get(name);
        return tensor ? [externalInitializer(name, tensor)] : [];
      }),
    ],
    input: graph.inputs.filter(({ name }) => !external.has(name)).map(valueInfo),
    output: graph.outputs.map(valueInfo),
    valueInfo: (graph.values ?? []).map(valueInfo),
  };
}

function externalInitializer(name: string, { type, path, offset, bytes, dims }: ExternalTensor) {
  const entries = { location: relative(EXTERNAL_FOLDER, path), offset, length: bytes };
  const externalData = Object.entries(entries).map(([key, value]) => ({ key, value: String(value) }));
  return { name, dims, dataType: DATA_TYPES[type], dataLocation: EXTERNAL, externalData };
}

function attribute(name: string, value: Attribute) {
  if (typeof value === "number") return { name, i: value, type: 2 };
  if ("graph" in value) return { name, g: graphProto(value.graph, new Map()), type: 5 };
  if ("float" in value) return { name, f: value.float, type: 1 };
  return { name, ints: value, type: 7 };
}

function valueInfo(port: Port) {
  const dim = port.dims.map((size) => (typeof size === "number" ? { dimValue: size } : { dimParam: size }));
  return { name: port.name, type: { tensorType: { elemType: DATA_TYPES[port.type], shape: { dim } } } };
}

function rawData({ type, values }: Constant): Uint8Array {
  const arrays = {
    float32: () => Float32Array.from(values),
    int32: () => Int32Array.from(values),
    int64: () => BigInt64Array.from(values, BigInt),
    bool: () => Uint8Array.from(values),
  };
  return new Uint8Array(arrays[type]().buffer);
}
