/**
 * @file The stages of an external call of a tool, in order:
 *
 *     rollout's budget ──spent──> text               (context.budget, charged by the tool before any await, so in call order)
 *     cache ──hit──> the answer                      (cache; `callUncached` skips it)
 *     run's budget ──spent──> the run is halted      (runBudget)
 *     rate limit and retries, if any                 (in `ask`: for JSON services, backend.ts)
 *     answer or error, without the secrets that were sent
 */
import type { TokenBucket } from "limiter";
import type { z } from "zod";
import { type Redact, redactError, redactJson } from "../../../../core/redact.ts";
import type { LeakageGuard } from "../visit/leakage.ts";
import { type Backends, openTokenBucket } from "./backend.ts";
import type { RunBudget } from "./budget.ts";
import type { AnswerCache, CachedRequest } from "./cache.ts";

export interface ExternalCallsOptions {
  readonly cache: AnswerCache;
  readonly runBudget: RunBudget;
  readonly backends: Backends;
  readonly guard: LeakageGuard;
  readonly redact: Redact;
}

export interface CallOptions<T> {
  /** What the answer cost beyond the price of the call. */
  readonly costOf?: (answer: T) => number;
  /** A conservative estimate of what `costOf` returns, in dollars: reserved in the run's budget during the call. */
  readonly maxUsd?: number;
  /** The canary of the question that the call serves. */
  readonly canary?: string | undefined;
}

export interface ExternalCalls {
  readonly backends: Backends;
  readonly guard: LeakageGuard;
  bucket(requestsPerSecond: number): TokenBucket;
  /** Answers from the cache, or calls and pays `usd`. Rejects with `run-halted` if that exceeds the run's budget. */
  call<T>(
    request: CachedRequest,
    schema: z.ZodType<T>,
    usd: number,
    ask: () => Promise<T>,
    options?: CallOptions<T>,
  ): Promise<T>;
  /** Calls and pays, without the cache. */
  callUncached<T>(usd: number, ask: () => Promise<T>): Promise<T>;
  /** Charges the run for requests whose cost `costOf` does not include, such as those that were cut off. Rejects like `call`. */
  payMore(usd: number): Promise<void>;
  countBlocked(count: number): Promise<void>;
}

export function openExternalCalls({ cache, runBudget, backends, guard, redact }: ExternalCallsOptions): ExternalCalls {
  async function askRedacted<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return redactJson(redact, await ask());
    } catch (error) {
      throw redactError(redact, error);
    }
  }

  return {
    backends,
    guard,
    bucket: openTokenBucket,
    call(request, schema, usd, ask, { costOf, maxUsd = 0, canary } = {}) {
      const pay = async () => {
        await runBudget.charge(usd, maxUsd);
        const answer = await askRedacted(ask).catch(async (error: unknown) => {
          await runBudget.settle(maxUsd, 0);
          throw error;
        });
        await runBudget.settle(maxUsd, costOf?.(answer) ?? 0);
        return answer;
      };
      return cache.answer(request, schema, pay, canary);
    },
    async callUncached(usd, ask) {
      await runBudget.charge(usd);
      return askRedacted(ask);
    },
    payMore: async (usd) => {
      if (usd > 0) await runBudget.chargeMore(usd);
    },
    countBlocked: async (count) => {
      if (count > 0) await runBudget.countBlocked(count);
    },
  };
}
