/**
 * @file Which execution provider a choice comes to on this machine. A GPU is taken only after it has computed what the CPU computes
 * (proof.ts); one that was named and is not there is refused, and nothing else is taken in its place.
 */
import { existsSync } from "node:fs";
import type { ExecutionProvider, Precision, ProviderChoice } from "../../core/contracts/engine.ts";
import { MgrpoError } from "../../core/errors.ts";
import { checkCuda } from "./cuda.ts";
import { deviationFromCpu } from "./provider-check.ts";

export interface ProviderDecision {
  readonly provider: ExecutionProvider;
  /** For the log: the provider, and what speaks for it, or against those before it. */
  readonly why: string;
}

type Gpu = Exclude<ExecutionProvider, "cpu">;

/** Tensor cores multiply with 10 bits of mantissa, 1e-3; what is wrong is wrong by more. */
const LARGEST_DEVIATION = 0.01;
/** Where Linux shows a GPU, WSL's among them. Without one, Vulkan computes on the CPU, slower than we do. */
const GPU_DEVICES = ["/dev/dri", "/dev/nvidiactl", "/dev/dxg"];

export async function chooseProvider(
  choice: Exclude<ProviderChoice, "cpu">,
  precision: Precision,
): Promise<ProviderDecision> {
  if (choice !== "auto") {
    try {
      return await prove(choice, precision);
    } catch (error) {
      const other = precision === "fp32" ? "engine.provider to cpu" : "engine.precision to fp32";
      throw new MgrpoError("engine-unsupported", `${messageOf(error)}, or set ${other}`, { cause: error });
    }
  }
  if (process.platform === "linux" && !GPU_DEVICES.some((device) => existsSync(device))) {
    return { provider: "cpu", why: `cpu: this machine shows no GPU (${GPU_DEVICES.join(", ")})` };
  }
  const against: string[] = [];
  for (const provider of ["webgpu", "cuda"] as const) {
    try {
      return await prove(provider, precision);
    } catch (error) {
      against.push(messageOf(error));
    }
  }
  return { provider: "cpu", why: `cpu: ${against.join("; ")}` };
}

async function prove(provider: Gpu, precision: Precision): Promise<ProviderDecision> {
  if (provider === "cuda") checkCuda();
  let deviation: number;
  try {
    deviation = await deviationFromCpu(provider, precision);
  } catch (error) {
    throw unusable(provider, `it does not start: ${messageOf(error)}`, NEEDS[provider], error);
  }
  if (deviation > LARGEST_DEVIATION) {
    const fault = `on this GPU and driver it computes other numbers than the CPU (relative deviation ${deviation.toPrecision(1)})`;
    throw unusable(provider, fault, "update the driver");
  }
  const products = precision === "fp32" ? "" : `, products in ${precision}`;
  const why = `${provider}${products}: a tiny model trained and sampled within ${deviation.toExponential(0)} of the CPU`;
  return { provider, why };
}

const NEEDS: Readonly<Record<Gpu, string>> = {
  cuda: "it needs NVIDIA's driver, CUDA 12 and cuDNN 9 where the dynamic linker looks (LD_LIBRARY_PATH); standard error has what is missing",
  webgpu:
    "it needs the GPU's own driver: Vulkan on Linux (vulkaninfo --summary shows it), D3D12 on Windows, Metal on macOS",
};

function unusable(provider: Gpu, fault: string, remedy: string, cause?: unknown): MgrpoError {
  return new MgrpoError("engine-unsupported", `engine.provider ${provider}: ${fault}: ${remedy}`, { cause });
}

/** One line; the runtime puts where in its source a check failed before what it says. */
const messageOf = (error: unknown) =>
  (error instanceof Error ? error.message : String(error)).replace(/^\/.* was false\. /, "").split("\n", 1)[0] ?? "";
