/**
 * @file The eager engine: the model on a tfjs backend, in the caller's thread. It is the test oracle for the compiled engine. The backend is
 * imported at the first use, since it loads numerical libraries.
 */
import type { PolicyEngine } from "../../core/ports.ts";
import { checkContext } from "../checkpoint/config.ts";
import { closable } from "../model/closable.ts";
import type { EagerBackend } from "./backend.ts";

export const eagerEngine: PolicyEngine = eagerEngineOn("cpu");
/** Needs the optional package @tensorflow/tfjs-node-gpu. */
export const eagerGpuEngine: PolicyEngine = {
  ...eagerEngineOn("tensorflow"),
  check: async () => (await import("./backend.ts")).checkGpuPackage(),
};

function eagerEngineOn(backend: EagerBackend): PolicyEngine {
  const load = async () => (await import("./backend.ts")).openBackend(backend);
  return {
    async openSampler(files, options) {
      checkContext(files, options.contextTokens);
      await load();
      const { openEagerSampler } = await import("./sampler.ts");
      return openEagerSampler(files, options, backend);
    },
    async openTrainer(files, options) {
      checkContext(files, options.contextTokens);
      await load();
      const { openEagerTrainer } = await import("./trainer.ts");
      return closable(openEagerTrainer(files, options, backend));
    },
  };
}
