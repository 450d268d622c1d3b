/** @file The tfjs backend that the eager engine computes on: plain JavaScript, or CUDA where its optional package is installed. */
import { createRequire } from "node:module";
import util from "node:util";
import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-cpu";
import { MgrpoError } from "../../core/errors.ts";
import { registerModelKernels } from "../model/kernels.ts";

export type EagerBackend = "cpu" | "gpu";

export const GPU_PACKAGE = "@tensorflow/tfjs-node-gpu";
/** The version is that of the peer dependency in package.json. */
export const INSTALL_GPU_PACKAGE = `npm install ${GPU_PACKAGE}@4.22.0`;
const NAMES: Record<EagerBackend, string> = { cpu: "cpu", gpu: "tensorflow" };

/** Loads a backend; `use` makes it current. */
export async function openBackend(backend: EagerBackend): Promise<void> {
  if (backend === "gpu") await loadGpu();
  // Out of it, the plain backend's first use prints a banner into whatever its process prints.
  else tf.enableProdMode();
  registerModelKernels(NAMES[backend]);
}

/** tfjs has one current backend; every stretch of synchronous tfjs work says which it wants. */
export function onBackend<T>(backend: EagerBackend, work: () => T): T {
  if (tf.engine().backendName !== NAMES[backend]) void tf.setBackend(NAMES[backend]);
  let result: T | undefined;
  tf.tidy(() => {
    result = work();
  });
  return result as T;
}

async function loadGpu(): Promise<void> {
  // tfjs-node 4.22 calls a function that Node 23 removed.
  const polyfill = { isNullOrUndefined: (value: unknown) => value === null || value === undefined };
  if (!("isNullOrUndefined" in util)) Object.assign(util, polyfill);
  try {
    await import(GPU_PACKAGE);
  } catch (cause) {
    throw withoutGpu(cause);
  }
}

/** Before anything starts: whether the package is there, not whether its driver is. */
export async function checkGpu(): Promise<void> {
  try {
    createRequire(import.meta.url).resolve(GPU_PACKAGE);
  } catch (cause) {
    throw withoutGpu(cause);
  }
}

function withoutGpu(cause: unknown): MgrpoError {
  return new MgrpoError(
    "engine-unsupported",
    `policy 'eager-gpu' needs ${GPU_PACKAGE}, which is not installed: ${INSTALL_GPU_PACKAGE} (CUDA 11.2), or use 'compiled'`,
    { cause },
  );
}
