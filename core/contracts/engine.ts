/** @file What computes an agent's policy on this machine, and how much of it at a time. */
import * as z from "zod";

/** What the compiled engine's graphs run on: onnxruntime's execution providers. */
export const ExecutionProvider = z.enum(["cpu", "cuda", "webgpu"]);
export type ExecutionProvider = z.infer<typeof ExecutionProvider>;

/** `auto`: the first GPU that computes as the CPU does, WebGPU before CUDA; the CPU where there is none. */
export const ProviderChoice = z.enum(["auto", ...ExecutionProvider.options]);
export type ProviderChoice = z.infer<typeof ProviderChoice>;

/**
 * What the compiled engine's products are in: of matrices, forward and backward. The product that makes logits, norms, softmax, loss, sums and
 * the optimizer are in fp32 in either case. `bf16`: rounded to it before and after, accumulated in fp32.
 */
export const Precision = z.enum(["fp32", "bf16"]);
export type Precision = z.infer<typeof Precision>;

export const EngineConfig = z.strictObject({
  /** Of policy `compiled`. A GPU has other bits than the CPU; what it needs: docs/gpu.md. */
  provider: ProviderChoice.default("cpu"),
  /** Of provider `cuda`, which alone multiplies bf16 and accumulates in fp32. */
  precision: Precision.default("fp32"),
  /** Threads that compute at the same time (engine/compiled/lanes.ts). Decides bits: two runs agree only at the same number. */
  threads: z.int().positive().default(1),
  /** Sequences decoded together. */
  slots: z.int().positive().default(32),
  /** Tokens of one training micro-batch (padded). */
  microBatchTokens: z.int().positive().default(4096),
});

interface PolicyOnEngine {
  readonly policy: string;
  readonly engine: { readonly provider: ProviderChoice; readonly precision: Precision };
}

/** Path and message of what an agent's policy or provider would ignore. */
export function engineFaults(
  agents: Readonly<Record<string, PolicyOnEngine>>,
): (readonly [(string | number)[], string])[] {
  return Object.entries(agents).flatMap(
    ([
      name,
      {
        policy,
        engine: { provider, precision },
      },
    ]) => {
      const fault = (setting: string, message: string): readonly [string[], string] => [
        ["agents", name, "engine", setting],
        message,
      ];
      return [
        ...(policy === "compiled" || provider === "cpu"
          ? []
          : [fault("provider", `does nothing with policy '${policy}': remove it, or use 'compiled'`)]),
        ...(provider === "cuda" || precision === "fp32"
          ? []
          : [fault("precision", `${precision} needs engine.provider cuda, not '${provider}': remove it, or set that`)]),
      ];
    },
  );
}
