/** @file The runtime, onnxruntime-node, is an optional dependency, so that the algorithm installs where the runtime cannot. */

export const NO_RUNTIME =
  "onnxruntime-node is not installed: npm leaves it out if its CUDA libraries, which are optional, cannot be downloaded; get it with: npm install --ignore-scripts";

/** Whether the error says that a module could not be loaded without the runtime. */
export function lacksRuntime(error: unknown): boolean {
  if (!(error instanceof Error) || !error.message.includes("'onnxruntime-node'")) return false;
  return (error as NodeJS.ErrnoException).code === "ERR_MODULE_NOT_FOUND";
}
