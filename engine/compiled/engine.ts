/** @file The compiled engine. Opening a policy loads numerical libraries, so the module that does it is imported on first use. */
import { MgrpoError } from "../../core/errors.ts";
import type { PolicyEngine } from "../../core/ports.ts";
import { providerDecision } from "./device.ts";
import { lacksRuntime, NO_RUNTIME } from "./missing-runtime.ts";

const opening = () =>
  import("./open.ts").catch((cause: unknown) => {
    throw lacksRuntime(cause) ? new MgrpoError("engine-unsupported", NO_RUNTIME) : cause;
  });

export const compiledEngine: PolicyEngine = {
  openSampler: async (files, options) => (await opening()).openSamplerOnLanes(files, options),
  openTrainer: async (files, options) => (await opening()).openTrainerOnLanes(files, options),
  computesOn: async (options) => (await providerDecision(options)).reason,
};
