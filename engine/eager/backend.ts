/** @file The tfjs backend of the eager engine: plain JavaScript on the CPU. */
import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-cpu";
import { registerModelKernels } from "../model/kernels.ts";

const BACKEND = "cpu";

/** Makes the backend available; `onBackend` selects it. */
export function openBackend(): void {
  // Without this, the backend's first use prints a banner to standard output.
  tf.enableProdMode();
  registerModelKernels(BACKEND);
}

/** Runs synchronous tfjs work. tfjs has one current backend per process, so each unit of work selects its backend. */
export function onBackend<T>(work: () => T): T {
  if (tf.engine().backendName !== BACKEND) void tf.setBackend(BACKEND);
  let result: T | undefined;
  tf.tidy(() => {
    result = work();
  });
  return result as T;
}
