/** @file Traces a tfjs function into an ONNX graph: names its inputs and outputs and drops nodes that no output needs. */
import * as tf from "@tensorflow/tfjs-core";
import type { Graph, GraphNode, Port } from "../onnx/serialize.ts";
import { portDims } from "./dimensions.ts";
import { KERNELS } from "./kernels.ts";
import { elementType, Recorder, type ShapeInput } from "./recorder.ts";

export interface TracedGraph {
  readonly graph: Graph;
  /** Inputs that the session fills with shapes, once the symbolic dimensions are known. */
  readonly shapeInputs: readonly ShapeInput[];
}

/** Declares the inputs and outputs of a traced function. */
export interface TraceScope {
  /** tfjs sees an int64 input as an int32 tensor. */
  input<T extends tf.Tensor>(name: string, shape: readonly number[], type?: "float32" | "int32" | "int64"): T;
  output(name: string, tensor: tf.Tensor): void;
}

const BACKEND = "mgrpo-recording";
let kernelsRegistered = false;

/** Runs `build` on the recording backend. Synchronous, so that no other tfjs work enters the trace. */
export const traceGraph = (name: string, build: (scope: TraceScope) => void): TracedGraph => trace(name, build, false);

/**
 * As `traceGraph`, for a large graph: declares the shapes of the fp32 values between nodes (`Graph.values`), so that the runtime reuses buffers
 * without a long search. This may change how it fuses operators, and thereby the results' rounding.
 */
export const traceWithShapes = (name: string, build: (scope: TraceScope) => void): TracedGraph =>
  trace(name, build, true);

function trace(name: string, build: (scope: TraceScope) => void, declaresShapes: boolean): TracedGraph {
  registerKernels();
  const recorder = new Recorder();
  const outputs: Port[] = [];
  const sources = new Map<string, string>();
  const before = tf.engine().backendName;
  tf.registerBackend(BACKEND, () => recorder);
  void tf.setBackend(BACKEND);
  try {
    tf.tidy(() =>
      build({
        input: <T extends tf.Tensor>(input: string, shape: readonly number[], type = "float32" as const) => {
          recorder.input(input, type, portDims(shape));
          const dtype = type === "float32" ? "float32" : "int32";
          return tf.engine().makeTensorFromTensorInfo(recorder.tensor({ name: input, shape }, shape, dtype)) as T;
        },
        output(output, tensor) {
          sources.set(output, recorder.full(tensor));
          outputs.push({ name: output, type: elementType(tensor.dtype), dims: portDims(tensor.shape) });
        },
      }),
    );
  } finally {
    if (before) void tf.setBackend(before);
    tf.removeBackend(BACKEND);
  }
  const nodes = leavesLast(needed(nameOutputs(recorder.nodes, sources), outputs));
  const read = new Set(nodes.flatMap((node) => node.inputs));
  const graph = {
    name,
    nodes,
    inputs: recorder.inputs.filter((input) => read.has(input.name)),
    outputs,
    constants: recorder.constants.filter((constant) => read.has(constant.name)),
    ...(declaresShapes && { values: producedValues(nodes, recorder.floatShapes) }),
  };
  return { graph, shapeInputs: recorder.shapeInputs.filter((input) => read.has(input.name)) };
}

function producedValues(nodes: readonly GraphNode[], shapes: ReadonlyMap<string, readonly number[]>): Port[] {
  const produced = new Set(nodes.flatMap((node) => node.outputs));
  return [...shapes]
    .filter(([value]) => produced.has(value))
    .map(([name, shape]): Port => ({ name, type: "float32", dims: portDims(shape) }));
}

/**
 * Renames each output's source value to the output's name. Only a value that no node produces (an input or a constant), or that is already
 * another output, gets an Identity node, which copies it.
 */
function nameOutputs(nodes: readonly GraphNode[], sources: ReadonlyMap<string, string>): GraphNode[] {
  const produced = new Set(nodes.flatMap((node) => node.outputs));
  const names = new Map<string, string>();
  const copies: GraphNode[] = [];
  for (const [output, value] of sources) {
    if (produced.has(value) && !names.has(value)) names.set(value, output);
    else {
      const inputs = [names.get(value) ?? value];
      copies.push({ op: "Identity", domain: "", inputs, outputs: [output], attributes: {} });
    }
  }
  const named = (name: string) => names.get(name) ?? name;
  const renamed = nodes.map((node) => ({
    ...node,
    inputs: node.inputs.map(named),
    outputs: node.outputs.map(named),
  }));
  return [...renamed, ...copies];
}

/** The nodes that some output depends on, in order. */
function needed(nodes: readonly GraphNode[], outputs: readonly Port[]): GraphNode[] {
  const wanted = new Set(outputs.map((output) => output.name));
  return [...nodes]
    .reverse()
    .filter((node) => {
      if (!node.outputs.some((output) => wanted.has(output))) return false;
      for (const input of node.inputs) wanted.add(input);
      return true;
    })
    .reverse();
}

/**
 * The runtime schedules backwards from the leaves, the nodes whose outputs no node reads: the last listed first, each after its inputs. So leaves
 * are listed last, with those that can be computed first at the very end: a weight's gradient is then computed while its inputs are in
 * the CPU cache, and they are freed early.
 */
function leavesLast(nodes: readonly GraphNode[]): GraphNode[] {
  const read = new Set(nodes.flatMap((node) => node.inputs));
  const isLeaf = (node: GraphNode) => !node.outputs.some((output) => read.has(output));
  const positions = new Map(
    nodes.flatMap((node, position) => node.outputs.map((output) => [output, position] as const)),
  );
  const ready = (leaf: GraphNode) => Math.max(...leaf.inputs.map((input) => positions.get(input) ?? 0));
  const leaves = nodes.filter(isLeaf).sort((a, b) => ready(b) - ready(a));
  return [...nodes.filter((node) => !isLeaf(node)), ...leaves];
}

function registerKernels(): void {
  if (kernelsRegistered) return;
  kernelsRegistered = true;
  for (const [kernelName, kernel] of Object.entries(KERNELS)) {
    tf.registerKernel({
      kernelName,
      backendName: BACKEND,
      kernelFunc: ({ inputs, backend, attrs }) =>
        kernel(backend as Recorder, inputs as Record<string, tf.TensorInfo>, attrs ?? {}),
    });
  }
}
