/** @file A traced graph as an onnxruntime session: fills in shapes, runs on arrays, writes outputs where it is told to. */
import * as ort from "onnxruntime-node";
import type { LaneOptions } from "./lanes.ts";
import { isHalfPrecision, withHalfPrecision } from "./onnx/half-precision.ts";
import { EXTERNAL_FOLDER, type ExternalTensors, serializeOnnx } from "./onnx/serialize.ts";
import { forWebGpu } from "./onnx/webgpu.ts";
import { evaluate, type Lengths } from "./trace/dimensions.ts";
import type { TracedGraph } from "./trace/trace.ts";

export type Arrays = Float32Array | Int32Array | BigInt64Array;
export type Feeds = Record<string, ort.Tensor>;

export interface GraphSession {
  /** As `run`, with the outputs as tensors: those on the device stay there until they are disposed of. */
  tensors(lengths: Lengths, feeds: Feeds, into?: Feeds, wanted?: readonly string[]): Promise<Feeds>;
  /**
   * Runs the graph at these lengths. Outputs are written into the tensors of `into`; those that it lacks are new arrays: keep them
   * small, for the collector counts every byte of them. Only `wanted` outputs, if given.
   */
  run(lengths: Lengths, feeds: Feeds, into?: Feeds, wanted?: readonly string[]): Promise<Record<string, Float32Array>>;
}

/** Shapes of so many lengths are kept. */
const MOST_SHAPES = 256;

/** A tensor over an array; no copy. */
export function tensor(data: Arrays, dims: readonly number[]): ort.Tensor {
  if (data instanceof Float32Array) return new ort.Tensor("float32", data, dims);
  return data instanceof Int32Array ? new ort.Tensor("int32", data, dims) : new ort.Tensor("int64", data, dims);
}

/** `external` weights are part of the session: they lie in their files, mapped, and all sessions on a machine share those pages. */
export async function openGraphSession(
  traced: TracedGraph,
  { threads, provider, precision = "fp32" }: Pick<LaneOptions, "threads" | "provider" | "precision">,
  external: ExternalTensors = new Map(),
  onDevice: readonly string[] = [],
): Promise<GraphSession> {
  const webgpu = provider === "webgpu";
  const graph = withHalfPrecision(webgpu ? forWebGpu(traced.graph) : traced.graph, external, {
    rowsFirst: !webgpu,
    precision,
    multipliesHalves: provider === "cuda",
  });
  const halves = [...external.keys()].some((name) => isHalfPrecision(external, name));
  const session = await ort.InferenceSession.create(serializeOnnx(graph, external), {
    executionProviders: [provider],
    ...(onDevice.length > 0 && {
      preferredOutputLocation: Object.fromEntries(onDevice.map((name) => [name, "gpu-buffer"] as const)),
    }),
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: "sequential",
    graphOptimizationLevel: "all",
    logSeverityLevel: 3,
    // The arena never gives back what widened halves took, and grows in powers of two.
    enableCpuMemArena: !halves,
    // Waiting threads must not take the cores from the other agents' processes.
    // Hidden keys get weights near 1e-39: as denormals they would slow every product they meet.
    // Weights that are packed for their products would be copies, in memory of this process.
    extra: {
      session: {
        intra_op: { allow_spinning: "0" },
        set_denormal_as_zero: "1",
        // What WebGPU has not would be computed on the CPU, and nobody told.
        ...(webgpu && { disable_cpu_ep_fallback: "1" }),
        ...(external.size > 0 && {
          disable_prepacking: "1",
          model_external_initializers_file_folder_path: EXTERNAL_FOLDER,
        }),
      },
      // Folded, the Cast of every half would be its float32 copy for good; but WebGPU has no bfloat16, and float16 on some GPUs only.
      ...(halves && !webgpu && { optimization: { disable_specified_optimizers: "ConstantFolding" } }),
    },
  });
  const shapes = new Map<string, Feeds>();
  const shapeFeeds = (lengths: Lengths): Feeds => {
    const key = JSON.stringify(lengths);
    const known = shapes.get(key);
    if (known) return known;
    const feeds = Object.fromEntries(
      traced.shapeInputs.map(({ name, shape }) => [
        name,
        tensor(
          BigInt64Array.from(shape, (size) => BigInt(evaluate(size, lengths))),
          [shape.length],
        ),
      ]),
    );
    // Lengths of training hardly ever come back.
    if (shapes.size === MOST_SHAPES) shapes.clear();
    shapes.set(key, feeds);
    return feeds;
  };
  const tensors: GraphSession["tensors"] = async (lengths, feeds, into = {}, wanted = session.outputNames) => {
    const fetches = Object.fromEntries(wanted.map((name) => [name, into[name] ?? null]));
    return session.run({ ...feeds, ...shapeFeeds(lengths) }, fetches);
  };
  return {
    tensors,
    async run(lengths, feeds, into, wanted) {
      const outputs = await tensors(lengths, feeds, into, wanted);
      return Object.fromEntries(Object.entries(outputs).map(([name, { data }]) => [name, data as Float32Array]));
    },
  };
}
