/** @file The tfjs backend of the eager engine: plain JavaScript, or CUDA with an optional package. */
import { createRequire } from "node:module";
import util from "node:util";
import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-cpu";
import { MgrpoError } from "../../core/errors.ts";
import { registerModelKernels } from "../model/kernels.ts";

/** Names of tfjs backends. */
export type EagerBackend = "cpu" | "tensorflow";

export const GPU_PACKAGE = "@tensorflow/tfjs-node-gpu";
/** The same version as the peer dependency in package.json. */
export const INSTALL_GPU_PACKAGE = `npm install ${GPU_PACKAGE}@4.22.0`;

/** Loads a backend; `onBackend` selects it. */
export async function openBackend(backend: EagerBackend): Promise<void> {
  if (backend === "tensorflow") await loadGpuPackage();
  // Without this, the cpu backend's first use prints a banner to standard error.
  else tf.enableProdMode();
  registerModelKernels(backend);
}

/** Runs synchronous tfjs work. tfjs has one current backend per process, so each unit of work selects its backend. */
export function onBackend<T>(backend: EagerBackend, work: () => T): T {
  if (tf.engine().backendName !== backend) void tf.setBackend(backend);
  let result: T | undefined;
  tf.tidy(() => {
    result = work();
  });
  return result as T;
}

/** Fails if the package is not installed. Does not check the GPU driver. */
export async function checkGpuPackage(): Promise<void> {
  try {
    createRequire(import.meta.url).resolve(GPU_PACKAGE);
  } catch (cause) {
    throw new MgrpoError(
      "engine-unsupported",
      `policy 'eager-gpu' needs ${GPU_PACKAGE}, which is not installed: ${INSTALL_GPU_PACKAGE} (CUDA 11.2), or use 'compiled'`,
      { cause },
    );
  }
}

async function loadGpuPackage(): Promise<void> {
  await checkGpuPackage();
  // tfjs-node 4.22 calls a function that Node 23 removed.
  const polyfill = { isNullOrUndefined: (value: unknown) => value === null || value === undefined };
  if (!("isNullOrUndefined" in util)) Object.assign(util, polyfill);
  await import(GPU_PACKAGE);
}
