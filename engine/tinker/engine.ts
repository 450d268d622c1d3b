/** @file The engine whose models live on a Tinker server: hosted Tinker, or SkyRL on one's own machines. README.md says how. */
import type { PolicyEngine } from "../../core/ports.ts";
import type { TransportOptions } from "./client/transport.ts";
import { parseTinkerPolicy } from "./policy.ts";
import { openTinkerSampler } from "./sampler.ts";
import { openServer } from "./server.ts";
import { openTinkerTrainer } from "./trainer.ts";
import { readTinkerVersion } from "./version.ts";

/** `apiKey`: TINKER_API_KEY. Every engine is one process's view of the server: its sessions, and models that nobody else uses. */
export function tinkerEngine(policy: string, options: Omit<TransportOptions, "baseUrl"> = {}): PolicyEngine {
  const server = openServer({ ...options, baseUrl: parseTinkerPolicy(policy).baseUrl });
  return {
    openSampler: (files, engineOptions) => openTinkerSampler(server, files, engineOptions),
    openTrainer: (files, engineOptions, journal) => openTinkerTrainer(server, files, engineOptions, journal),
    async check(files, { contextTokens }) {
      await server.check(readTinkerVersion(files), contextTokens);
    },
    async discard(files) {
      const { weights } = readTinkerVersion(files);
      if (weights !== null) await server.client.deleteWeights(weights);
    },
  };
}
