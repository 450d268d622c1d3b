/**
 * @file The token stream of one conversation, append-only: tokens that the policy was shown, and exactly the tokens that it sampled.
 * The trainer trains on this record, so a sample that does not fit it or its own request is refused: `prefix-drift`.
 */
import type { Trajectory } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Sample, SampleRequest } from "../../core/ports.ts";

export class TokenLog {
  readonly #tokens: number[] = [];
  readonly #actions: [number, number][] = [];
  readonly #logProbs: number[] = [];

  get length(): number {
    return this.#tokens.length;
  }

  /** A copy: callers cannot change the record. */
  tokens(): number[] {
    return [...this.#tokens];
  }

  show(tokens: readonly number[]): void {
    for (const token of tokens) this.#tokens.push(token);
  }

  /** Records a turn, end-of-turn token included: stopping is an action too. */
  act(request: SampleRequest, sample: Sample, ends: readonly number[]): void {
    const mismatch = mismatchOf(this.#tokens, request, sample, ends);
    if (mismatch) {
      throw new MgrpoError("prefix-drift", `${request.sequence}, turn at token ${this.length}: ${mismatch}`, {
        evidence: { request: request.tokens.length, sample },
      });
    }
    const start = this.length;
    this.show(sample.tokens);
    this.#actions.push([start, this.length]);
    // A log-prob is at most 0; rounding in the engine may leave it slightly above.
    for (const logProb of sample.logProbs) this.#logProbs.push(Math.min(logProb, 0));
  }

  trajectory(agent: string, version: number): Trajectory {
    return { agent, version, tokens: this.tokens(), actions: [...this.#actions], logProbs: [...this.#logProbs] };
  }
}

/** How the request differs from the log, or the sample violates the request; undefined if neither. */
function mismatchOf(
  tokens: readonly number[],
  request: SampleRequest,
  sample: Sample,
  ends: readonly number[],
): string | undefined {
  const count = sample.tokens.length;
  const differs = request.tokens.length !== tokens.length || request.tokens.some((token, t) => token !== tokens[t]);
  if (differs) return "the request's tokens are not the conversation so far";
  if (count === 0 || count > request.maxTokens) {
    return `${count} tokens sampled, expected between 1 and ${request.maxTokens}`;
  }
  if (sample.logProbs.length !== count) return `${sample.logProbs.length} log-probs for ${count} tokens`;
  if (!sample.logProbs.every(Number.isFinite)) return "a log-prob is not a finite number";
  const end = sample.tokens.findIndex((token) => ends.includes(token));
  if (end >= 0 && end < count - 1) return `${count - 1 - end} tokens sampled after the end of the turn`;
  if (sample.stop === "stop" && end < 0) return "sampling stopped without the end-of-turn token";
  return undefined;
}
