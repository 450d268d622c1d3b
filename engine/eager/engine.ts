/** @file The eager engine: the model on a tfjs backend, in the caller's thread. It is the test oracle for the compiled engine. */
import type { PolicyEngine } from "../../core/ports.ts";
import { checkContext } from "../checkpoint/config.ts";
import { checkGpuPackage, type EagerBackend, openBackend } from "./backend.ts";

export const eagerEngine: PolicyEngine = eagerEngineOn("cpu");
/** Needs the optional package @tensorflow/tfjs-node-gpu. */
export const eagerGpuEngine: PolicyEngine = { ...eagerEngineOn("tensorflow"), check: checkGpuPackage };

function eagerEngineOn(backend: EagerBackend): PolicyEngine {
  return {
    async openSampler(files, options) {
      checkContext(files, options.contextTokens);
      await openBackend(backend);
      const { openEagerSampler } = await import("./sampler.ts");
      return openEagerSampler(files, options, backend);
    },
    async openTrainer(files, options) {
      checkContext(files, options.contextTokens);
      await openBackend(backend);
      const { openEagerTrainer } = await import("./trainer.ts");
      return openEagerTrainer(files, options, backend);
    },
  };
}
