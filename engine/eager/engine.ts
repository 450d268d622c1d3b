/** @file The eager engine: the model on a tfjs backend, in the caller's thread. It is the test oracle for the compiled engine. */
import type { PolicyEngine } from "../../core/ports.ts";
import { checkContext } from "../checkpoint/config.ts";
import { openBackend } from "./backend.ts";

export const eagerEngine: PolicyEngine = {
  async openSampler(files, options) {
    checkContext(files, options.contextTokens);
    openBackend();
    const { openEagerSampler } = await import("./sampler.ts");
    return openEagerSampler(files, options);
  },
  async openTrainer(files, options) {
    checkContext(files, options.contextTokens);
    openBackend();
    const { openEagerTrainer } = await import("./trainer.ts");
    return openEagerTrainer(files, options);
  },
};
