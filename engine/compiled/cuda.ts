/** @file Whether onnxruntime's CUDA provider is installed: it is a separate library with its own install command. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { MgrpoError } from "../../core/errors.ts";

const LIBRARY = "libonnxruntime_providers_cuda.so";
const INSTALL_CUDA = "`mgrpo doctor --install cuda`";

/** Throws `engine-unsupported` if the machine is not supported or the library is not installed. */
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
  const message = `engine.provider cuda: it supports linux x64, not ${platform} ${arch}: use webgpu`;
  throw new MgrpoError("engine-unsupported", message);
}
