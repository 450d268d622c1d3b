/** @file The ONNX nodes of each tfjs kernel that the model and its gradients use. */
import { backend_util, type DataType, type TensorInfo } from "@tensorflow/tfjs-core";
import { CONTRIB, DATA_TYPES } from "../onnx/serialize.ts";
import { elementType, type RecordedValue, type Recorder } from "./recorder.ts";

type Inputs = Record<string, TensorInfo>;
type Attributes = Record<string, unknown>;
export type TracedKernel = (recorder: Recorder, inputs: Inputs, attributes: Attributes) => TensorInfo | TensorInfo[];

const broadcastShape = (a: readonly number[], b: readonly number[]) =>
  backend_util.assertAndGetBroadcastShape([...a], [...b]);
const elementCount = (shape: readonly number[]) => shape.reduce((product, length) => product * length, 1);

function requireInput(inputs: Inputs, name: string): TensorInfo {
  const tensor = inputs[name];
  if (!tensor) throw new Error(`kernel input '${name}' is missing`);
  return tensor;
}

/** Elementwise on two tensors; if `shortcut` returns one of them, no node is needed. */
function binary(
  op: string,
  dtype?: DataType,
  shortcut?: (a: RecordedValue, b: RecordedValue) => RecordedValue | undefined,
): TracedKernel {
  return (recorder, inputs) => {
    const [a, b] = [requireInput(inputs, "a"), requireInput(inputs, "b")];
    const shape = broadcastShape(a.shape, b.shape);
    const [left, right] = [recorder.value(a), recorder.value(b)];
    const known = shortcut?.(left, right);
    if (known) return recorder.tensor(known, shape, dtype ?? a.dtype);
    const [name] = recorder.node(op, [left.name, right.name], 1);
    return recorder.tensor({ name, shape: broadcastShape(left.shape, right.shape) }, shape, dtype ?? a.dtype);
  };
}

const timesOne = (a: RecordedValue, b: RecordedValue) => (a.splat === 1 ? b : b.splat === 1 ? a : undefined);
const plusZero = (a: RecordedValue, b: RecordedValue) => (a.splat === 0 ? b : b.splat === 0 ? a : undefined);

/** Elementwise on one tensor. */
function unary(op: string): TracedKernel {
  return (recorder, inputs) => {
    const x = requireInput(inputs, "x");
    const value = recorder.value(x);
    const [name] = recorder.node(op, [value.name], 1);
    return recorder.tensor({ name, shape: value.shape }, x.shape, x.dtype);
  };
}

function reshaped(recorder: Recorder, x: TensorInfo, shape: readonly number[]): TensorInfo {
  const value = recorder.value(x);
  if (value.splat !== undefined) return splat(recorder, shape, value.splat, x.dtype);
  const source = recorder.full(x);
  if (shape.length === x.shape.length && shape.every((length, i) => length === x.shape[i])) {
    return recorder.tensor({ name: source, shape }, shape, x.dtype);
  }
  const [name] = recorder.node("Reshape", [source, recorder.shape(shape, true)], 1);
  return recorder.tensor({ name, shape }, shape, x.dtype);
}

function splat(recorder: Recorder, shape: readonly number[], value: number, dtype: DataType): TensorInfo {
  const type = dtype === "int32" ? "int32" : "float32";
  const ones = shape.map(() => 1);
  const name = recorder.constant(type, ones, [value]);
  return recorder.tensor({ name, shape: ones, splat: value }, shape, dtype);
}

const reduceSum: TracedKernel = (recorder, inputs, { axis, keepDims }) => {
  const x = requireInput(inputs, "x");
  const every = x.shape.map((_, i) => i);
  const axes = (axis === undefined || axis === null ? every : ([axis].flat() as number[])).map((index) =>
    index < 0 ? index + x.shape.length : index,
  );
  if (axes.length === 0) return recorder.tensor(recorder.value(x), x.shape, x.dtype);
  const keep = keepDims === true;
  const shape = keep
    ? x.shape.map((length, i) => (axes.includes(i) ? 1 : length))
    : x.shape.filter((_, i) => !axes.includes(i));
  const options = { attributes: { keepdims: keep ? 1 : 0 } };
  const [name] = recorder.node("ReduceSum", [recorder.full(x), recorder.integers(axes)], 1, options);
  return recorder.tensor({ name, shape }, shape, x.dtype);
};

/** FusedMatMul transposes while it multiplies. Matrix-vector products stay in fp32: bf16 would save nothing. */
const matMul: TracedKernel = (recorder, inputs, { transposeA, transposeB, exact }) => {
  const [a, b] = [requireInput(inputs, "a"), requireInput(inputs, "b")];
  const rows = a.shape.at(transposeA ? -1 : -2) ?? 0;
  const columns = b.shape.at(transposeB ? -2 : -1) ?? 0;
  const batch = broadcastShape(a.shape.slice(0, -2), b.shape.slice(0, -2));
  const shape = [...batch, rows, columns];
  const names = [recorder.full(a), recorder.full(b)];
  const attributes = { transA: transposeA ? 1 : 0, transB: transposeB ? 1 : 0 };
  const options = { exact: exact === true || rows === 1 || columns === 1 };
  const fused = { ...options, domain: CONTRIB, attributes, ranks: [a.shape.length, b.shape.length] };
  const [name] =
    transposeA || transposeB
      ? recorder.node("FusedMatMul", names, 1, fused)
      : recorder.node("MatMul", names, 1, options);
  return recorder.tensor({ name, shape }, shape, a.dtype);
};

const alongAxis =
  (op: string, input: string, attribute: string): TracedKernel =>
  (recorder, inputs, attributes) => {
    const x = requireInput(inputs, input);
    const [name] = recorder.node(op, [recorder.full(x)], 1, { attributes: { axis: Number(attributes[attribute]) } });
    return recorder.tensor({ name, shape: x.shape }, x.shape, "float32");
  };

export const KERNELS: Readonly<Record<string, TracedKernel>> = {
  Add: binary("Add", undefined, plusZero),
  Sub: binary("Sub", undefined, (a, b) => (b.splat === 0 ? a : undefined)),
  Multiply: binary("Mul", undefined, timesOne),
  Maximum: binary("Max"),
  Minimum: binary("Min"),
  Greater: binary("Greater", "bool"),
  GreaterEqual: binary("GreaterOrEqual", "bool"),
  LessEqual: binary("LessOrEqual", "bool"),
  Exp: unary("Exp"),
  Neg: unary("Neg"),
  Sigmoid: unary("Sigmoid"),
  Identity: (recorder, inputs) => {
    const x = requireInput(inputs, "x");
    return recorder.tensor(recorder.value(x), x.shape, x.dtype);
  },
  Square: (recorder, inputs) => {
    const x = requireInput(inputs, "x");
    const value = recorder.value(x);
    const [name] = recorder.node("Mul", [value.name, value.name], 1);
    return recorder.tensor({ name, shape: value.shape }, x.shape, x.dtype);
  },
  AddN: (recorder, inputs) => {
    const terms = Object.values(inputs);
    const [first] = terms;
    if (!first) throw new Error("AddN without inputs");
    const [name] = recorder.node(
      "Sum",
      terms.map((term) => recorder.full(term)),
      1,
    );
    return recorder.tensor({ name, shape: first.shape }, first.shape, first.dtype);
  },
  Reshape: (recorder, inputs, { shape }) => {
    const x = requireInput(inputs, "x");
    const wanted = shape as number[];
    const known = wanted.filter((length) => length !== -1);
    return reshaped(
      recorder,
      x,
      wanted.map((length) => (length === -1 ? elementCount(x.shape) / elementCount(known) : length)),
    );
  },
  Transpose: (recorder, inputs, { perm }) => {
    const x = requireInput(inputs, "x");
    const order = perm as number[];
    const shape = order.map((axis) => x.shape[axis] ?? 0);
    const [name] = recorder.node("Transpose", [recorder.full(x)], 1, { attributes: { perm: order } });
    return recorder.tensor({ name, shape }, shape, x.dtype);
  },
  BatchMatMul: matMul,
  Sum: reduceSum,
  Softmax: alongAxis("Softmax", "logits", "dim"),
  LogSoftmax: alongAxis("LogSoftmax", "logits", "axis"),
  Cast: (recorder, inputs, { dtype }) => {
    const x = requireInput(inputs, "x");
    const value = recorder.value(x);
    const target = dtype as DataType;
    if (target === x.dtype) return recorder.tensor(value, x.shape, target);
    if (value.splat !== undefined) return splat(recorder, x.shape, value.splat, target);
    const [name] = recorder.node("Cast", [value.name], 1, { attributes: { to: DATA_TYPES[elementType(target)] } });
    return recorder.tensor({ name, shape: value.shape }, x.shape, target);
  },
  Slice: (recorder, inputs, { begin, size: lengths }) => {
    const x = requireInput(inputs, "x");
    const starts = begin as number[];
    const shape = (lengths as number[]).map((length, i) =>
      length === -1 ? (x.shape[i] ?? 0) - (starts[i] ?? 0) : length,
    );
    const ends = shape.map((length, i) => length + (starts[i] ?? 0));
    const [name] = recorder.node("Slice", [recorder.full(x), recorder.shape(starts), recorder.shape(ends)], 1);
    return recorder.tensor({ name, shape }, shape, x.dtype);
  },
  Concat: (recorder, inputs, { axis }) => {
    const parts = Object.values(inputs);
    const at = Number(axis) < 0 ? Number(axis) + (parts[0]?.shape.length ?? 0) : Number(axis);
    const shape = (parts[0]?.shape ?? []).map((length, i) =>
      i === at ? parts.reduce((sum, part) => sum + (part.shape[at] ?? 0), 0) : length,
    );
    const names = parts.map((part) => recorder.full(part));
    const [name] = recorder.node("Concat", names, 1, { attributes: { axis: at } });
    return recorder.tensor({ name, shape }, shape, parts[0]?.dtype ?? "float32");
  },
  GatherV2: (recorder, inputs, { axis }) => {
    const [x, indices] = [requireInput(inputs, "x"), requireInput(inputs, "indices")];
    const at = Number(axis);
    const shape = [...x.shape.slice(0, at), ...indices.shape, ...x.shape.slice(at + 1)];
    const [name] = recorder.node("Gather", [recorder.full(x), recorder.full(indices)], 1, { attributes: { axis: at } });
    return recorder.tensor({ name, shape }, shape, x.dtype);
  },
  /** y = x * r * gain with r = 1/rms(x): one node that also returns r, for the gradient. */
  RmsNorm: (recorder, inputs, { epsilon }) => {
    const [x, gain] = [requireInput(inputs, "x"), requireInput(inputs, "gain")];
    const options = { attributes: { axis: -1, epsilon: { float: Number(epsilon) } } };
    const [y, r] = recorder.node("SimplifiedLayerNormalization", [recorder.full(x), recorder.full(gain)], 2, options);
    const rows = [...x.shape.slice(0, -1), 1];
    return [
      recorder.tensor({ name: y, shape: x.shape }, x.shape, x.dtype),
      recorder.tensor({ name: r, shape: rows }, rows, x.dtype),
    ];
  },
  /** x [B, T, heads * hd], cos and sin [B, T, hd / 2]: the layout that ONNX's RotaryEmbedding takes, too. */
  Rotate: (recorder, inputs, { heads }) => {
    const x = requireInput(inputs, "x");
    const names = ["x", "cos", "sin"].map((name) => recorder.full(requireInput(inputs, name)));
    const options = { attributes: { num_heads: Number(heads) } };
    const [name] = recorder.node("RotaryEmbedding", names, 1, options);
    return recorder.tensor({ name, shape: x.shape }, x.shape, x.dtype);
  },
  /** x [N, V], columns [N] -> x[n, columns[n]], [N, 1]. */
  PickColumn: (recorder, inputs) => {
    const [x, columns] = [requireInput(inputs, "x"), requireInput(inputs, "columns")];
    const shape = [x.shape[0] ?? 0, 1];
    const column = recorder.full(reshaped(recorder, columns, shape));
    const [name] = recorder.node("GatherElements", [recorder.full(x), column], 1, { attributes: { axis: 1 } });
    return recorder.tensor({ name, shape }, shape, x.dtype);
  },
  /** x + 0 * (the first element of each other input). */
  ControlDependency: (recorder, inputs) => {
    const x = requireInput(inputs, "x");
    const firsts = Object.values(inputs)
      .filter((tensor) => tensor !== x)
      .map((tensor) => {
        const [flat] = recorder.node("Reshape", [recorder.full(tensor), recorder.integers([-1])], 1);
        const [first] = recorder.node("Slice", [flat, recorder.integers([0]), recorder.integers([1])], 1);
        return first;
      });
    const [sum] = recorder.node("Sum", firsts, 1);
    const [zero] = recorder.node("Mul", [sum, recorder.constant("float32", [1], [0])], 1);
    const [name] = recorder.node("Add", [recorder.full(x), zero], 1);
    return recorder.tensor({ name, shape: x.shape }, x.shape, x.dtype);
  },
};
