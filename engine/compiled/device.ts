/** @file The device that the compiled engine computes on, decided once per provider choice and precision, and the one thread that uses a GPU. */
import type { EngineOptions } from "../../core/ports.ts";
import { decideProvider, type ProviderDecision } from "./providers.ts";
import { EngineThread } from "./thread.ts";

/** The only thread that uses the GPU: onnxruntime's WebGPU device crashes the process when two threads use it. */
export const gpuThread = new EngineThread();
const decisions = new Map<string, Promise<ProviderDecision>>();

export async function providerDecision({
  provider: choice = "cpu",
  precision = "fp32",
}: EngineOptions): Promise<ProviderDecision> {
  if (choice === "cpu") return { provider: "cpu", reason: "cpu" };
  const key = `${choice} ${precision}`;
  const known = decisions.get(key);
  if (known) return known;
  const deciding = decideProvider(choice, precision);
  decisions.set(key, deciding);
  deciding.catch(() => decisions.delete(key));
  return deciding;
}
