/**
 * @file The policy of an agent behind an API: one version, and at most `engine.slots` requests in flight.
 *
 *     close   waits for: the payments of all requests, including those whose conversations were canceled   unblocked by: their ends
 */
import pLimit from "p-limit";
import type { AgentConfig } from "../../../core/contracts/agent-config.ts";
import type { TokenPrices } from "../../../core/contracts/language-model.ts";
import type { AssistantTurn, ChatModel, ChatRequest } from "../../../core/language-model-ports.ts";
import { costUsd, maxCostUsd, payAfter } from "../../../core/model-cost.ts";
import type { PolicyVersions } from "../policy-versions.ts";
import { endpointBackend } from "./backend.ts";

/** @param pay records what each turn cost in dollars, if the config sets prices; for requests of unknown usage, the most that they may cost. */
export function endpointPolicy(
  { engine, endpoint }: AgentConfig,
  model: ChatModel,
  pay: (usd: number) => Promise<void>,
): PolicyVersions {
  const queue = pLimit(engine.slots);
  const prices = endpoint?.usdPerMillionTokens;
  const unpaid = new Set<Promise<AssistantTurn>>();
  const queued: ChatModel = {
    async generate(request, signal) {
      if (!prices) return queue(() => model.generate(request, signal));
      const turn = queue(() => payFor(model, request, signal, prices, pay));
      unpaid.add(turn);
      return turn.finally(() => unpaid.delete(turn));
    },
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
    async close() {
      await Promise.allSettled(unpaid);
    },
  };
}

async function payFor(
  model: ChatModel,
  request: ChatRequest,
  signal: AbortSignal,
  prices: TokenPrices,
  pay: (usd: number) => Promise<void>,
): Promise<AssistantTurn> {
  const { conversation, tools, maxTokens } = request;
  let usd = 0;
  const onUnknownUsage = () => {
    usd += maxCostUsd(prices, [JSON.stringify([conversation, tools])], maxTokens);
  };
  const generate = async () => {
    const turn = await model.generate({ ...request, onUnknownUsage }, signal);
    usd += costUsd(prices, turn.usage);
    return turn;
  };
  return payAfter(generate, async () => {
    if (usd > 0) await pay(usd);
  });
}
