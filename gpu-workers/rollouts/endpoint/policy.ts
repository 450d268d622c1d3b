/** @file The policy of an agent behind an API: it has one version, and as many requests under way as the engine has slots. */
import pLimit from "p-limit";
import type { AgentConfig } from "../../../core/contracts/agent-config.ts";
import type { ChatModel } from "../../../core/language-model-ports.ts";
import type { Policy } from "../../policy.ts";
import { endpointSpeaker } from "./backend.ts";

/** @param pay told of what each turn cost, in dollars, where turns have a price. */
export function endpointPolicy(
  { engine, endpoint }: AgentConfig,
  model: ChatModel,
  pay: (usd: number) => Promise<void>,
): Policy {
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
      speaker: (part) => endpointSpeaker(part, queued, calls),
      confirmed: async () => true,
      release() {},
    }),
    foresee() {},
    prepare: async () => {},
    loading: () => undefined,
    close: async () => {},
  };
}
