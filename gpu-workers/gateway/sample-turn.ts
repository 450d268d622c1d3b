/** @file Samples one turn of an agent and parses it into the reply to a request. */
import type { TurnReply, TurnRequest } from "../../core/contracts/app-chat.ts";
import type { Sampling } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { SampledTurn } from "../../core/gateway/branch.ts";
import { readReply } from "../../core/gateway/reply.ts";
import type { Sample, SampleRequest, Tokenizer } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";
import type { Inference, Lease } from "../rollouts/policy-versions.ts";
import { TokenLog } from "../rollouts/token-log.ts";
import { beforeStop, untilStop } from "./stop-strings.ts";

export interface TurnPlan {
  readonly agent: string;
  readonly version: number;
  /** Identifies the exchange. The ids of tool calls contain its first 20 characters. */
  readonly exchange: string;
  readonly request: TurnRequest;
  /** All tokens before the turn. */
  readonly prefix: readonly number[];
  readonly maxTokens: number;
  readonly maxCalls: number;
  readonly sampling: Sampling;
  /** Names the branch to the engine. The caller releases it. */
  readonly sequence: string;
  readonly branchOf?: SampleRequest["branchOf"];
  readonly stream: StreamName;
}

export interface SampledReply {
  readonly turn: SampledTurn;
  readonly reply: TurnReply;
}

/** What samples the agent's turns. Throws `request-refused` if the agent runs behind an API. */
export function inferenceOf({ inference }: Lease, agent: string): Inference {
  if (inference) return inference;
  throw new MgrpoError("request-refused", `agent '${agent}' runs behind an API: call that API directly`);
}

export async function sampleTurn(
  { tokenizer, sampler }: Inference,
  plan: TurnPlan,
  signal: AbortSignal,
): Promise<SampledReply> {
  const { sequence, branchOf, prefix, maxTokens, sampling, stream, request } = plan;
  const stop = tokenizer.ends.map((end) => [end]);
  const sampleRequest: SampleRequest = {
    sequence,
    tokens: prefix,
    maxTokens,
    stop,
    sampling,
    stream,
    ...(branchOf && { branchOf }),
  };
  const sample = untilStop(await sampler.sample(sampleRequest, signal), request.stopStrings, tokenizer);
  const log = new TokenLog();
  log.show(prefix);
  log.act(sampleRequest, sample, tokenizer.ends);
  return replyOf(plan, log, sample, tokenizer);
}

function replyOf(
  { agent, version, exchange, request, maxCalls }: TurnPlan,
  log: TokenLog,
  sample: Sample,
  tokenizer: Inference["tokenizer"],
): SampledReply {
  const { tokens, logProbs } = log.trajectory(agent, version);
  const hasEnded = tokenizer.ends.includes(sample.tokens.at(-1) ?? Number.NaN);
  const decoded = tokenizer.decode(hasEnded ? sample.tokens.slice(0, -1) : sample.tokens);
  const { visible, stoppedBy } = beforeStop(decoded, request.stopStrings);
  const isCut = !hasEnded && stoppedBy === undefined;
  const { text, thinking, calls, unparsed } = readReply(visible, request, maxCalls);
  const numbered = calls.map((call, i) => ({ id: `call_${exchange.slice(0, 20)}_${i}`, ...call }));
  const turn: SampledTurn = {
    tokens,
    start: tokens.length - sample.tokens.length,
    logProbs,
    text: visible,
    isCut,
    unparsed,
    calls: calls.map((call) => ({ name: call.name, arguments: JSON.parse(call.arguments) })),
  };
  const reply: TurnReply = {
    exchange,
    text,
    thinking,
    calls: numbered,
    stopReason: numbered.length > 0 ? "calls" : isCut ? "length" : "stop",
    ...(stoppedBy !== undefined && { stoppedBy }),
    usage: { inputTokens: turn.start, outputTokens: sample.tokens.length },
    tokens: tokenTexts(sample.tokens, tokenizer).map((own, i) => ({ text: own, logProb: logProbs[i] ?? 0 })),
  };
  return { turn, reply };
}

/**
 * The text of each token. A token is decoded with the one before it: some tokenizers leave out the space at the start of a text. One that
 * continues a character of that token is decoded alone, so that its part of the character is U+FFFD.
 */
export function tokenTexts(tokens: readonly number[], { decode }: Pick<Tokenizer, "decode">): string[] {
  return tokens.map((token, i) => {
    const before = tokens.slice(Math.max(0, i - 1), i);
    const [known, text] = [decode(before), decode([...before, token])];
    const own = text.startsWith(known) ? text.slice(known.length) : "";
    return own === "" ? decode([token]) : own;
  });
}
