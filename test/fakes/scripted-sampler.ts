/**
 * @file A Sampler whose turns come from a function. The function gets the text of everything so far, special tokens
 * included, and returns the turn without its end-of-turn token. Every log-prob is -0.5. The sampler has neither slots nor timing.
 */
import { MgrpoError } from "../../core/errors.ts";
import type { Sample, SampleRequest, Sampler, Tokenizer } from "../../core/ports.ts";

export type Reply = (prefix: string, request: SampleRequest) => string | Promise<string>;

export interface ScriptedSampler extends Sampler {
  readonly requests: SampleRequest[];
  readonly released: string[];
  readonly closed: () => boolean;
}

export const SCRIPTED_LOG_PROB = -0.5;

export function scriptedSampler(tokenizer: Tokenizer, reply: Reply): ScriptedSampler {
  const requests: SampleRequest[] = [];
  const released: string[] = [];
  let closed = false;
  return {
    requests,
    released,
    closed: () => closed,
    async sample(request, signal) {
      refuse(signal, request);
      requests.push(request);
      const text = await reply(tokenizer.decode(request.tokens), request);
      refuse(signal, request);
      return sampleOf([...tokenizer.encodeTemplate(text), tokenizer.endOfTurn], request);
    },
    release(sequence) {
      released.push(sequence);
    },
    async close() {
      closed = true;
    },
  };
}

/** The turn up to the end of its first stop sequence, but at most `maxTokens` tokens. */
function sampleOf(turn: readonly number[], { stop, maxTokens }: SampleRequest): Sample {
  const ends = stop.flatMap((sequence) => {
    const at = turn.findIndex((_, i) => sequence.every((token, j) => turn[i + j] === token));
    return at < 0 ? [] : [at + sequence.length];
  });
  const end = Math.min(...ends, turn.length);
  const tokens = turn.slice(0, Math.min(end, maxTokens));
  return {
    tokens,
    logProbs: tokens.map(() => SCRIPTED_LOG_PROB),
    stop: ends.length > 0 && end <= maxTokens ? "stop" : "length",
  };
}

function refuse(signal: AbortSignal | undefined, { sequence }: SampleRequest): void {
  if (signal?.aborted)
    throw new MgrpoError("canceled", `sampling of ${sequence} was canceled`, { cause: signal.reason });
}
