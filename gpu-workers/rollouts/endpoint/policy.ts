/** @file The policy of an agent behind an API: one version, and at most `engine.slots` requests in flight. */
import pLimit from "p-limit";
import type { AgentConfig } from "../../../core/contracts/agent-config.ts";
import type { ChatModel } from "../../../core/language-model-ports.ts";
import type { PolicyVersions } from "../policy-versions.ts";
import { endpointBackend } from "./backend.ts";

/** @param pay records the price of each turn in dollars, if the config sets prices. */
export function endpointPolicy(
  { engine, endpoint }: AgentConfig,
  model: ChatModel,
  pay: (usd: number) => Promise<void>,
): PolicyVersions {
  const queue = pLimit(engine.slots);
  const price = endpoint?.usdPerMillionTokens;
  const queued: ChatModel = {
    generate: (request, signal) =>
      queue(async () => {
        const turn = await model.generate(request, signal);
        if (price) await pay((turn.usage.inputTokens * price.input + turn.usage.outputTokens * price.output) / 1e6);
        return turn;
      }),
  };
  const calls = endpoint?.calls ?? "native";
  return {
    acquire: async () => ({
      backend: (options) => endpointBackend(options, queued, calls),
      inference: undefined,
      release() {},
    }),
    open: async () => {},
    isLoadingOther: () => false,
    close: async () => {},
  };
}
