/** @file The engine for models on a Tinker server: hosted Tinker, or SkyRL on your own machines. See engine/tinker/README.md. */
import type { PolicyEngine } from "../../core/ports.ts";
import type { TransportOptions } from "./client/transport.ts";
import { parseTinkerPolicy } from "./policy.ts";
import { openTinkerSampler } from "./sampler.ts";
import { TinkerServer } from "./server.ts";
import { openTinkerTrainer } from "./trainer.ts";
import { readTinkerVersion } from "./version.ts";

/**
 * `apiKey` is the value of TINKER_API_KEY. Sessions and models belong to the process that opens them; only a trainer's model can be resumed,
 * by its successor (journal.ts).
 */
export function tinkerEngine(policy: string, options: Omit<TransportOptions, "baseUrl"> = {}): PolicyEngine {
  const server = new TinkerServer({ ...options, baseUrl: parseTinkerPolicy(policy).baseUrl });
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
