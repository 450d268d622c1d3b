/** @file What computes an agent's policy on this machine, at which precision, and how much at a time. */
import * as z from "zod";
import type { ConfigFault } from "./config-fault.ts";

/** What the compiled engine's graphs run on: onnxruntime's execution providers. */
export const ExecutionProvider = z.enum(["cpu", "cuda", "webgpu"]);
export type ExecutionProvider = z.infer<typeof ExecutionProvider>;

/** `auto`: the first GPU whose results match the CPU's, WebGPU before CUDA; otherwise the CPU. */
export const ProviderChoice = z.enum(["auto", ...ExecutionProvider.options]);
export type ProviderChoice = z.infer<typeof ProviderChoice>;

/**
 * The precision of the compiled engine's matrix products, forward and backward. Logits, norms, softmax, loss, sums and the optimizer are
 * always fp32. `bf16`: operands and results are rounded to bf16, accumulation is fp32.
 */
export const Precision = z.enum(["fp32", "bf16"]);
export type Precision = z.infer<typeof Precision>;

/** Whether packed weights are kept. `auto`: on if the machine has the memory. */
export const WeightPacking = z.enum(["auto", "on", "off"]);
export type WeightPacking = z.infer<typeof WeightPacking>;

/** Whether activations are recomputed. `auto`: off if the machine has the memory. */
export const GradientCheckpointing = z.enum(["auto", "on", "off"]);
export type GradientCheckpointing = z.infer<typeof GradientCheckpointing>;

/** How the weights of a frozen base under an adapter are quantized. */
export const Quantization = z.enum(["none", "int8", "int4"]);
export type Quantization = z.infer<typeof Quantization>;

/**
 * `agents.<name>.engine`: what computes the agent's policy, how exactly, and how much at a time, in threads, sequences and tokens. `RunConfig`
 * refuses most settings that the policy or the provider would ignore (`engineFaults`).
 */
export const EngineConfig = z.strictObject({
  provider: ProviderChoice.default("cpu").describe(
    "Where policy 'compiled' computes: cpu, cuda, webgpu, or auto. A GPU's results are not bit-identical to the CPU's; see docs/gpu.md.",
  ),
  precision: Precision.default("fp32").describe(
    "Precision of matrix products: fp32, or bf16 with fp32 accumulation, which needs provider cuda.",
  ),
  weightPacking: WeightPacking.default("auto").describe(
    "Whether the sampler packs the weights under an adapter for its matrix products: faster, with a packed copy per lane. " +
      "auto: on if it fits into the worker's share of memory (see dedicated).",
  ),
  quantization: Quantization.default("none").describe(
    "Quantizes the linear layers of a frozen base under an adapter, block by block, for sampler and trainer alike (QLoRA): int8 or int4. " +
      "With packing, the sampler rounds activations too; see docs/lora.md.",
  ),
  threads: z
    .int()
    .positive()
    .default(1)
    .describe("Compute threads. Results are reproducible only at the same number of threads."),
  dedicated: z
    .boolean()
    .default(false)
    .describe(
      "Whether the worker has its machine to itself: its threads then spin while they wait for each other, and auto plans with three quarters of the machine's memory instead of a quarter.",
    ),
  slots: z.int().positive().default(32).describe("Sequences that are decoded together: KV-cache slots."),
  microBatchTokens: z
    .int()
    .positive()
    .default(4096)
    .describe(
      "Maximum tokens of one training micro-batch, padding included. A longer sequence is a micro-batch of its own.",
    ),
  gradientCheckpointing: GradientCheckpointing.default("auto").describe(
    "Whether the backward pass recomputes each layer's activations (on), or the forward pass keeps them (off): faster, more memory. auto: off if they fit into the worker's share of memory (see dedicated).",
  ),
  prefixTrees: z
    .boolean()
    .default(true)
    .describe(
      "Whether training computes a shared prefix once for all its sequences, where the estimated gain is worth it. Changes results by rounding only.",
    ),
});

export type EngineConfig = z.infer<typeof EngineConfig>;

/** Policies whose trainers run on this machine. */
const LOCAL_TRAINERS = ["compiled", "eager", "eager-gpu"];

/** Settings of the compiled engine on the CPU alone, and their defaults. */
const CPU_ONLY = [
  ["weightPacking", "auto"],
  ["gradientCheckpointing", "auto"],
  ["quantization", "none"],
  ["dedicated", false],
] as const;

interface AgentWithEngine {
  readonly policy: string;
  readonly engine: Pick<EngineConfig, "provider" | "precision" | "prefixTrees" | (typeof CPU_ONLY)[number][0]>;
}

/** Engine settings that an agent's policy or provider does not take: path and message. */
export function engineFaults(agents: Readonly<Record<string, AgentWithEngine>>): ConfigFault[] {
  return Object.entries(agents).flatMap(([name, { policy, engine }]) => {
    const { provider, precision, prefixTrees } = engine;
    const faults: ConfigFault[] = [];
    const needs = (wanted: ExecutionProvider) =>
      policy === "compiled" ? `engine.provider ${wanted}, not '${provider}'` : `policy 'compiled', not '${policy}'`;
    if (policy !== "compiled" && provider !== "cpu") {
      const message = `does nothing with policy '${policy}': remove it, or use 'compiled'`;
      faults.push([["agents", name, "engine", "provider"], message]);
    }
    if (precision !== "fp32" && provider !== "cuda") {
      const message = `${precision} needs ${needs("cuda")}: remove it, or set that`;
      faults.push([["agents", name, "engine", "precision"], message]);
    }
    if (!prefixTrees && !LOCAL_TRAINERS.includes(policy)) {
      const message = `does nothing with policy '${policy}', which has no prefix trees: remove it`;
      faults.push([["agents", name, "engine", "prefixTrees"], message]);
    }
    for (const [setting, unset] of CPU_ONLY) {
      if (engine[setting] === unset || (policy === "compiled" && provider === "cpu")) continue;
      faults.push([["agents", name, "engine", setting], `needs ${needs("cpu")}: remove it, or set that`]);
    }
    return faults;
  });
}
