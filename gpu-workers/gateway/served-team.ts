/**
 * @file A trained team behind the APIs of api/app.ts. Each request is rendered from scratch and nothing is kept between requests,
 * except the engine's own KV cache: a request that begins with the tokens of an earlier one computes only the rest.
 */
import { randomBytes } from "node:crypto";
import type { AppMessage, TurnReply, TurnRequest } from "../../core/contracts/app-chat.ts";
import { Sampling } from "../../core/contracts/rollout.ts";
import { reformat } from "../../core/conversation/json-text.ts";
import { MgrpoError } from "../../core/errors.ts";
import { sha256 } from "../../engine/hash.ts";
import { openMessageLayout } from "../../engine/tokenizer/message-layout.ts";
import { acquireLease, type HostedAgent } from "../rollouts/agent.ts";
import type { ChatTeam } from "./api/app.ts";
import type { RequestedSampling } from "./api/dialect.ts";
import { ApiError } from "./api/errors.ts";
import { overflow, tooManyMessagesFault, tooMuchTextFault } from "./context-room.ts";
import { withCutResponses } from "./cut-responses.ts";
import { renderOrRefuse } from "./refused-request.ts";
import { inferenceOf, sampleTurn } from "./sample-turn.ts";

export type ServedAgent = Pick<HostedAgent, "name" | "config" | "policy">;

/** Weights that are served never change. */
const VERSION = 0;

/**
 * A request that sets no temperature is sampled at that of training.
 *
 * @param trainingTemperature for agents without a temperature of their own.
 * @param override replaces the temperature of training, for every agent.
 */
export function servedTeam(
  agents: ReadonlyMap<string, ServedAgent>,
  trainingTemperature: number,
  override?: number,
): ChatTeam {
  return {
    agents: [...agents.keys()],
    async turn(name, request, signal, requested) {
      const agent = agents.get(name);
      if (!agent) throw new MgrpoError("config-invalid", `this team has no agent '${name}'`);
      const sampling = samplingOf(requested, override ?? agent.config.temperature ?? trainingTemperature);
      return answer(agent, request, { sampling, seed: requested.seed }, signal);
    },
    delivering() {},
  };
}

async function answer(
  { name, config, policy }: ServedAgent,
  request: TurnRequest,
  { sampling, seed }: { readonly sampling: Sampling; readonly seed: unknown },
  signal: AbortSignal,
): Promise<TurnReply> {
  const lease = await acquireLease(policy, VERSION, signal);
  try {
    const inference = inferenceOf(lease, name);
    const { thinking, toolPrompt, limits } = config;
    const settings = { agent: name, system: "", tools: request.tools, thinking, toolPrompt };
    const limit = { agent: name, contextTokens: limits.contextTokens };
    refuseOverlong(tooManyMessagesFault(request.messages, limit));
    const cut = withCutResponses(request.messages, limits, inference.tokenizer);
    if (!cut) throw overlong(overflow(limit));
    const messages = messagesOf(cut, config.system);
    const prefix = renderOrRefuse(() => {
      const layout = openMessageLayout(inference.tokenizer, settings, { asSampled: true });
      const count = (text: string) => inference.tokenizer.encodeText(text).length;
      refuseOverlong(tooMuchTextFault(messages, layout.shownTools, { tokens: limits.contextTokens, count }, limit));
      return layout.opening(messages);
    });
    const room = limits.contextTokens - prefix.length;
    if (room < 1) {
      const fault = `the messages take ${prefix.length} tokens, and agents.${name}.limits.contextTokens is ${limits.contextTokens}`;
      throw overlong(fault);
    }
    const exchange = randomBytes(16).toString("hex");
    const plan = {
      agent: name,
      version: VERSION,
      exchange,
      request,
      prefix,
      sampling,
      maxTokens: Math.min(request.maxTokens ?? limits.turnTokens, room),
      maxCalls: limits.calls,
      sequence: `${name}/${exchange}`,
      // The same request with the same `seed` gets the same reply.
      stream: ["serve", name, seed == null ? exchange : sha256(JSON.stringify([seed, prefix]))],
    };
    const turn = sampleTurn(inference, plan, signal);
    // The cache stays until another sequence needs the slot: requests with the same beginning copy from it.
    const { reply } = await turn.finally(() => inference.sampler.release(plan.sequence));
    return reply;
  } finally {
    lease.release();
  }
}

const overlong = (fault: string) => new ApiError(400, "context_length_exceeded", fault, "messages");

function refuseOverlong(fault: string | undefined): void {
  if (fault !== undefined) throw overlong(fault);
}

/** Adds the system message that the agent was trained with, unless the request has one, and writes calls as chat templates and models do. */
function messagesOf(messages: readonly AppMessage[], system: string): AppMessage[] {
  const needsNoSystem = system === "" || messages.some(({ role }) => role === "system");
  const written = messages.map((message) =>
    message.role === "assistant"
      ? { ...message, calls: message.calls.map((call) => ({ ...call, arguments: reformat(call.arguments, " ") })) }
      : message,
  );
  return needsNoSystem ? written : [{ role: "system", text: system }, ...written];
}

function samplingOf({ temperature, topP }: RequestedSampling, defaultTemperature: number): Sampling {
  const wanted = { temperature: temperature ?? defaultTemperature, topP: topP ?? 1, topK: 0 };
  const parsed = Sampling.safeParse(wanted);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const param = issue?.path[0] === "topP" ? "top_p" : "temperature";
  throw new ApiError(400, "invalid_value", `${param}: ${issue?.message}`, param);
}
