/** @file The compiled engine. Opening a policy loads numerical libraries, so the module that does it is imported on first use. */
import type { PolicyEngine } from "../../core/ports.ts";
import { decideProvider } from "./device.ts";

const opening = () => import("./open.ts");

export const compiledEngine: PolicyEngine = {
  openSampler: async (files, options) => (await opening()).openSampler(files, options),
  openTrainer: async (files, options) => (await opening()).openTrainer(files, options),
  computesOn: async (options) => (await decideProvider(options)).reason,
};
