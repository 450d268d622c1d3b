/**
 * @file Resolves `engine.provider` to an execution provider of this machine. A GPU is used only after its results match the CPU's
 * (check-process.ts). An explicitly named provider that is unusable is an error; there is no fallback.
 */
import { existsSync } from "node:fs";
import type { ExecutionProvider, Precision, ProviderChoice } from "../../core/contracts/engine.ts";
import { errorText, MgrpoError } from "../../core/errors.ts";
import { checkInProcess } from "./check-process.ts";
import { checkCuda } from "./cuda.ts";

export interface ProviderDecision {
  readonly provider: ExecutionProvider;
  /** For the log: the provider and why it was chosen, or why the GPUs were not. */
  readonly reason: string;
}

type Gpu = Exclude<ExecutionProvider, "cpu">;

/** TF32 tensor cores have a 10-bit mantissa (about 1e-3); a faulty provider deviates by more than this limit. */
const MAXIMUM_DEVIATION = 0.01;
/** Device files of GPUs on Linux and WSL. Without one, Vulkan would run in software, slower than the CPU provider. */
const GPU_DEVICES = ["/dev/dri", "/dev/nvidiactl", "/dev/dxg"];

export async function decideProvider(
  choice: Exclude<ProviderChoice, "cpu">,
  precision: Precision,
): Promise<ProviderDecision> {
  if (choice !== "auto") {
    try {
      return await tryGpu(choice, precision);
    } catch (error) {
      const alternative =
        precision === "fp32"
          ? "engine.provider to cpu"
          : "engine.precision to fp32, and engine.provider to cpu if that fails too";
      throw new MgrpoError("engine-unsupported", `${errorText(error)}, or set ${alternative}`, { cause: error });
    }
  }
  if (process.platform === "linux" && !GPU_DEVICES.some((device) => existsSync(device))) {
    return { provider: "cpu", reason: `cpu: no GPU device file on this machine (${GPU_DEVICES.join(", ")})` };
  }
  const rejections: string[] = [];
  for (const provider of ["webgpu", "cuda"] as const) {
    try {
      return await tryGpu(provider, precision);
    } catch (error) {
      rejections.push(errorText(error));
    }
  }
  return { provider: "cpu", reason: `cpu: ${rejections.join("; ")}` };
}

async function tryGpu(provider: Gpu, precision: Precision): Promise<ProviderDecision> {
  if (provider === "cuda") checkCuda();
  const outcome = await checkInProcess({ provider, precision });
  if ("refusal" in outcome) {
    throw unusable(provider, `it does not start: ${firstLine(outcome.refusal)}`, INSTALL[provider]);
  }
  if ("end" in outcome)
    throw unusable(provider, `on this GPU and driver its check ${outcome.end}`, "update the driver");
  const { deviation } = outcome;
  if (deviation > MAXIMUM_DEVIATION) {
    const fault = `on this GPU and driver its results differ from the CPU's (relative deviation ${deviation.toPrecision(2)})`;
    throw unusable(provider, fault, "update the driver");
  }
  const matmuls = precision === "fp32" ? "" : `, matmuls in ${precision}`;
  const reason = `${provider}${matmuls}: a tiny model's training and samples agree with the CPU's to within ${deviation.toExponential(1)}`;
  return { provider, reason };
}

const INSTALL: Readonly<Record<Gpu, string>> = {
  cuda: "install NVIDIA's driver, CUDA 12 and cuDNN 9 where the dynamic linker looks (LD_LIBRARY_PATH; standard error names what is missing)",
  webgpu:
    "install the GPU's own driver (Vulkan on Linux: vulkaninfo --summary shows it; D3D12 on Windows; Metal on macOS)",
};

function unusable(provider: Gpu, fault: string, remedy: string): MgrpoError {
  return new MgrpoError("engine-unsupported", `engine.provider ${provider}: ${fault}: ${remedy}`);
}

/** The first line, without the source location and the failed condition that the runtime prepends. */
const firstLine = (message: string) => message.replace(/^\/.* was false\. /, "").split("\n", 1)[0] ?? "";
