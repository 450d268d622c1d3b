/**
 * @file A tfjs backend that computes nothing: its kernels add ONNX nodes (kernels.ts), so running a tfjs function, gradients included,
 * records its graph.
 *
 * A recorded value may be narrower than its tensor ([N, 1] for [N, D]): elementwise operators on one or two tensors take it as it is,
 * and broadcast; all others request the `full` value. A value whose elements are known to be all equal is a constant of one element.
 */
import { type BackendValues, type DataType, KernelBackend, type TensorInfo } from "@tensorflow/tfjs-core";
import type { Attribute, Constant, ElementType, GraphNode, Port } from "../onnx/serialize.ts";
import { isSymbolic } from "./dimensions.ts";

export interface RecordedValue {
  readonly name: string;
  /** Shape of the ONNX value: broadcasts to the tensor's. */
  readonly shape: readonly number[];
  /** The number that every element equals, if known. */
  readonly splat?: number;
}

/** A shape with symbolic dimensions: an int64 graph input, one entry per dimension. */
export interface ShapeInput {
  readonly name: string;
  readonly shape: readonly number[];
}

export interface NodeOptions {
  readonly domain?: string;
  readonly attributes?: Readonly<Record<string, Attribute>>;
  readonly ranks?: readonly number[];
  readonly exact?: boolean;
}

/** A larger constant is a bug: a tensor with a symbolic dimension was materialized. */
const MAXIMUM_CONSTANT = 10000;

export class Recorder extends KernelBackend {
  readonly nodes: GraphNode[] = [];
  readonly inputs: Port[] = [];
  readonly shapeInputs: ShapeInput[] = [];
  /** Shapes of the float32 values, by name. Not of integers: a tfjs int32 may be an int64 in the graph. */
  readonly floatShapes = new Map<string, readonly number[]>();
  readonly #values = new WeakMap<object, RecordedValue>();
  readonly #constants = new Map<string, Constant>();
  #names = 0;

  get constants(): Constant[] {
    return [...this.#constants.values()];
  }

  value(tensor: TensorInfo): RecordedValue {
    const value = this.#values.get(tensor.dataId);
    if (!value) throw new Error(`a tensor of shape [${tensor.shape}] was not created in this trace`);
    return value;
  }

  /** The name of a value of the tensor's full shape. */
  full(tensor: TensorInfo): string {
    const value = this.value(tensor);
    if (value.shape.length === tensor.shape.length && value.shape.every((size, i) => size === tensor.shape[i])) {
      return value.name;
    }
    const [name] = this.node("Expand", [value.name, this.shape(tensor.shape)], 1);
    if (tensor.dtype === "float32") this.floatShapes.set(name, tensor.shape);
    this.#values.set(tensor.dataId, { name, shape: tensor.shape });
    return name;
  }

  /** Adds a node and returns the names of its outputs. */
  node<N extends 1 | 2>(
    op: string,
    inputs: readonly string[],
    outputs: N,
    options?: NodeOptions,
  ): N extends 1 ? [string] : [string, string];
  node(op: string, inputs: readonly string[], outputs: number, options?: NodeOptions): string[];
  node(op: string, inputs: readonly string[], outputs: number, options: NodeOptions = {}): string[] {
    const names = Array.from({ length: outputs }, () => `v${this.#names++}`);
    this.nodes.push({
      op,
      domain: options.domain ?? "",
      inputs,
      outputs: names,
      attributes: options.attributes ?? {},
      ...(options.ranks && { ranks: options.ranks }),
      ...(options.exact && { exact: true }),
    });
    return names;
  }

  /** A new tensor for a recorded value. */
  tensor(value: RecordedValue, shape: readonly number[], dtype: DataType): TensorInfo {
    const dataId = {};
    this.#values.set(dataId, value);
    if (dtype === "float32") this.floatShapes.set(value.name, value.shape);
    return { dataId, shape: [...shape], dtype };
  }

  input(name: string, type: ElementType, dims: Port["dims"]): void {
    this.inputs.push({ name, type, dims });
  }

  constant(type: ElementType, dims: readonly number[], values: readonly number[]): string {
    const key = `${type}[${dims}]${values.join(",")}`;
    const known = this.#constants.get(key);
    if (known) return known.name;
    const name = `c${this.#constants.size}`;
    this.#constants.set(key, { name, type, dims, values });
    return name;
  }

  integers(values: readonly number[]): string {
    return this.constant("int64", [values.length], values);
  }

  /** The name of a shape: a constant if it is fixed, or if its one symbolic dimension can be inferred (-1); otherwise a graph input. */
  shape(shape: readonly number[], inferOne = false): string {
    const varying = shape.filter(isSymbolic).length;
    if (varying === 0) return this.integers(shape);
    if (inferOne && varying === 1) return this.integers(shape.map((size) => (isSymbolic(size) ? -1 : size)));
    const name = `shape:${shape.join(",")}`;
    if (!this.shapeInputs.some((input) => input.name === name)) {
      this.shapeInputs.push({ name, shape: [...shape] });
      this.input(name, "int64", [shape.length]);
    }
    return name;
  }

  // The KernelBackend interface. Only constants are ever written.

  override write(values: BackendValues, shape: number[], dtype: DataType): object {
    const dataId = {};
    this.move(dataId, values, shape, dtype);
    return dataId;
  }

  override move(dataId: object, values: BackendValues, shape: number[], dtype: DataType): void {
    if (values.length > MAXIMUM_CONSTANT)
      throw new Error(`a constant of shape [${shape}] is too large for a traced function`);
    const list = Array.from(values, Number);
    const name = this.constant(elementType(dtype), shape, list);
    const splat = list.length === 1 ? list[0] : undefined;
    this.#values.set(dataId, splat === undefined ? { name, shape } : { name, shape, splat });
  }

  /** tfjs calls it around every kernel, but reads the result only in its own tests. */
  override numDataIds(): number {
    return 0;
  }
  override dispose(): void {}
  override disposeData(): boolean {
    return true;
  }
  override readSync(): never {
    throw new Error("a traced function must not read the values of its tensors");
  }
}

export function elementType(dtype: DataType): ElementType {
  if (dtype === "float32" || dtype === "int32" || dtype === "bool") return dtype;
  throw new Error(`a traced graph cannot have dtype ${dtype}`);
}
