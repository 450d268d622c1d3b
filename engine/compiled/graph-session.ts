/** @file A traced graph as an onnxruntime session: resolves shapes, runs on arrays, writes outputs in place where the caller gives arrays. */
import * as ort from "onnxruntime-node";
import type { LaneOptions } from "./lanes.ts";
import { isHalfPrecision, withHalfPrecision } from "./onnx/half-precision.ts";
import { withQuantizedBase } from "./onnx/quantized.ts";
import { EXTERNAL_FOLDER, type ExternalTensors, serializeOnnx } from "./onnx/serialize.ts";
import { forWebGpu } from "./onnx/webgpu.ts";
import { evaluate, type Lengths } from "./trace/dimensions.ts";
import type { ShapeInput } from "./trace/recorder.ts";
import type { TracedGraph } from "./trace/trace.ts";

export type TensorArray = Float32Array | Int32Array | BigInt64Array;
export type Feeds = Record<string, ort.Tensor>;

type SessionOptions = Pick<
  LaneOptions,
  "threads" | "provider" | "precision" | "dedicated" | "packsWeights" | "quantized" | "multipliesCodes"
>;

/** Maximum number of combinations of lengths whose shape inputs are cached. */
const MAXIMUM_SHAPES = 256;

/** A tensor over an array; no copy. */
export function tensor(data: TensorArray, dims: readonly number[]): ort.Tensor {
  if (data instanceof Float32Array) return new ort.Tensor("float32", data, dims);
  return data instanceof Int32Array ? new ort.Tensor("int32", data, dims) : new ort.Tensor("int64", data, dims);
}

/**
 * The session maps `external` weights into memory from their files until its release; all sessions on a machine share those pages.
 * Outputs named in `onDevice` stay on the device.
 */
export async function openGraphSession(
  traced: TracedGraph,
  options: SessionOptions,
  external: ExternalTensors = new Map(),
  onDevice: readonly string[] = [],
): Promise<GraphSession> {
  const { provider, precision = "fp32", quantized, multipliesCodes = false } = options;
  const isWebGpu = provider === "webgpu";
  const graph = withHalfPrecision(isWebGpu ? forWebGpu(traced.graph) : traced.graph, external, {
    gathersBeforeCast: !isWebGpu,
    precision,
    multipliesBfloat16: provider === "cuda",
  });
  const rewritten = quantized && withQuantizedBase(graph, quantized, multipliesCodes);
  const bytes = serializeOnnx(rewritten?.graph ?? graph, new Map([...external, ...(rewritten?.external ?? [])]));
  const session = await ort.InferenceSession.create(
    bytes,
    sessionOptions(options, external, onDevice, traced.graph.values !== undefined),
  );
  return new GraphSession(session, traced.shapeInputs);
}

function sessionOptions(
  { threads, provider, dedicated = false, packsWeights = false, quantized, multipliesCodes = false }: SessionOptions,
  external: ExternalTensors,
  onDevice: readonly string[],
  knowsShapes: boolean,
): ort.InferenceSession.SessionOptions {
  const isWebGpu = provider === "webgpu";
  const hasHalfWeights = [...external.keys()].some((name) => isHalfPrecision(external, name));
  const dequantizes = quantized !== undefined && !multipliesCodes;
  const disabledOptimizers = [
    // Constant folding keeps a float32 copy of every half-precision or quantized weight, unless packing replaces it. WebGPU needs folding: it
    // has no bfloat16, and float16 on some GPUs only.
    ...((hasHalfWeights || dequantizes) && !isWebGpu && !packsWeights ? ["ConstantFolding"] : []),
    // Where the runtime knows the shapes, it would fuse the sum of two products into a Gemm, which copies one of them first.
    ...(knowsShapes ? ["MatMulAddFusion"] : []),
  ];
  return {
    executionProviders: [provider],
    ...(onDevice.length > 0 && {
      preferredOutputLocation: Object.fromEntries(onDevice.map((name) => [name, "gpu-buffer"] as const)),
    }),
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: "sequential",
    graphOptimizationLevel: "all",
    logSeverityLevel: 3,
    // The arena never returns the memory of widened or dequantized weights, and grows in powers of two.
    enableCpuMemArena: !hasHalfWeights && !dequantizes,
    extra: {
      session: {
        // On a shared machine, spinning threads would take cores from the other agents' processes.
        intra_op: { allow_spinning: dedicated ? "1" : "0" },
        // The runtime's softmax gives masked keys weights near 1e-39: denormals, which slow down every product.
        set_denormal_as_zero: "1",
        // Without this, operators that WebGPU lacks would silently run on the CPU.
        ...(isWebGpu && { disable_cpu_ep_fallback: "1" }),
        // Otherwise the runtime would fuse dequantization and products into other operators.
        ...(dequantizes && { disable_quant_qdq: "1" }),
        ...((external.size > 0 || quantized) && {
          // Packed weights are copies in this process's memory.
          disable_prepacking: packsWeights ? "0" : "1",
          model_external_initializers_file_folder_path: EXTERNAL_FOLDER,
        }),
      },
      // KleidiAI, on ARM, rounds the scales of quantized weights to bfloat16: they would differ from the trainer's.
      ...(quantized && { mlas: { disable_kleidiai: "1" } }),
      ...(disabledOptimizers.length > 0 && {
        optimization: { disable_specified_optimizers: disabledOptimizers.join(";") },
      }),
    },
  };
}

export class GraphSession {
  readonly #session: ort.InferenceSession;
  readonly #shapeInputs: readonly ShapeInput[];
  /** Shape inputs by lengths. */
  readonly #shapeFeeds = new Map<string, Feeds>();

  constructor(session: ort.InferenceSession, shapeInputs: readonly ShapeInput[]) {
    this.#session = session;
    this.#shapeInputs = shapeInputs;
  }

  /** As `run`, with outputs as tensors: those on the device stay there until they are disposed of. */
  async runToTensors(lengths: Lengths, feeds: Feeds, into: Feeds = {}): Promise<Feeds> {
    const fetches = Object.fromEntries(this.#session.outputNames.map((name) => [name, into[name] ?? null]));
    return this.#session.run({ ...feeds, ...this.#shapesAt(lengths) }, fetches);
  }

  /**
   * Runs the graph at these lengths. Outputs are written into the tensors of `into`. Outputs without one are new arrays: keep them small,
   * since each adds to the pressure on the garbage collector.
   */
  async run(lengths: Lengths, feeds: Feeds, into?: Feeds): Promise<Record<string, Float32Array>> {
    const outputs = await this.runToTensors(lengths, feeds, into);
    // The graphs that are run this way have float32 outputs only.
    return Object.fromEntries(Object.entries(outputs).map(([name, { data }]) => [name, data as Float32Array]));
  }

  /** Frees the session, its mapped weights included. No call may follow. */
  release(): Promise<void> {
    return this.#session.release();
  }

  #shapesAt(lengths: Lengths): Feeds {
    const key = JSON.stringify(lengths);
    const known = this.#shapeFeeds.get(key);
    if (known) return known;
    const feeds: Feeds = {};
    for (const { name, shape } of this.#shapeInputs) {
      const sizes = BigInt64Array.from(shape, (size) => BigInt(evaluate(size, lengths)));
      feeds[name] = tensor(sizes, [shape.length]);
    }
    // Training lengths hardly ever repeat.
    if (this.#shapeFeeds.size === MAXIMUM_SHAPES) this.#shapeFeeds.clear();
    this.#shapeFeeds.set(key, feeds);
    return feeds;
  }
}

/** The output of this name. @throws Error if the graph did not return it. */
export function requireOutput<T>(outputs: Readonly<Record<string, T | undefined>>, name: string): T {
  const output = outputs[name];
  if (output === undefined) throw new Error(`the graph has no output ${name}`);
  return output;
}
