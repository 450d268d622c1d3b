/** @file Where CUDA's provider is: a library of the runtime's own, which is fetched by a command of its own. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { MgrpoError } from "../../core/errors.ts";

const LIBRARY = "libonnxruntime_providers_cuda.so";
const INSTALL_CUDA = "`mgrpo doctor --install cuda`";

/** Refuses a machine that the library is not made for, or that has it not. */
export function checkCuda(): void {
  checkPlatform();
  const entry = createRequire(import.meta.url).resolve("onnxruntime-node");
  const folder = join(dirname(entry), "..", "bin", "napi-v6", process.platform, process.arch);
  if (existsSync(join(folder, LIBRARY))) return;
  const message = `engine.provider cuda: its library is not installed: install it with ${INSTALL_CUDA}`;
  throw new MgrpoError("engine-unsupported", message);
}

export function checkPlatform(): void {
  const { platform, arch } = process;
  if (platform === "linux" && arch === "x64") return;
  const message = `engine.provider cuda: it is made for linux x64, and this is ${platform} ${arch}: use webgpu`;
  throw new MgrpoError("engine-unsupported", message);
}
