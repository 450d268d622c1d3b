/**
 * @file The path of every call that a tool makes to the outside, in order:
 *
 *     rollout's budget ──spent──> text                (context.budget: before any await, so in the order of the text)
 *     cache ──hit──> the answer
 *     run's budget ──spent──> the run is halted      (answer)
 *     rate of the backend, retries                   (backends)
 */
import type { TokenBucket } from "limiter";
import type { z } from "zod";
import type { LeakageGuard } from "../visit/leakage.ts";
import { type Backends, openBucket } from "./backend.ts";
import type { RunBudget } from "./budget.ts";
import type { AnswerCache, CachedRequest } from "./cache.ts";

export interface ExternalCallsOptions {
  readonly cache: AnswerCache;
  readonly runBudget: RunBudget;
  readonly backends: Backends;
  readonly guard: LeakageGuard;
}

export interface CallOptions<T> {
  /** What the answer cost beyond the price of the call. */
  readonly costOf?: (answer: T) => number;
  /** What `costOf` may return, in dollars: the run's budget must have room for it. */
  readonly expectedUsd?: number;
  /** Of the question that the call serves. */
  readonly canary?: string | undefined;
}

export interface ExternalCalls {
  readonly backends: Backends;
  readonly guard: LeakageGuard;
  bucket(requestsPerSecond: number): TokenBucket;
  /** Answers from the cache, or calls and pays. */
  call<T>(
    request: CachedRequest,
    schema: z.ZodType<T>,
    usd: number,
    ask: () => Promise<T>,
    options?: CallOptions<T>,
  ): Promise<T>;
  /** Calls and pays, without the cache. */
  callUncached<T>(usd: number, ask: () => Promise<T>): Promise<T>;
  countBlocked(count: number): Promise<void>;
}

export function openExternalCalls({ cache, runBudget, backends, guard }: ExternalCallsOptions): ExternalCalls {
  return {
    backends,
    guard,
    bucket: openBucket,
    call(request, schema, usd, ask, { costOf, expectedUsd = 0, canary } = {}) {
      const pay = async () => {
        await runBudget.charge(usd, expectedUsd);
        const answer = await ask();
        const more = costOf?.(answer) ?? 0;
        if (more > 0) await runBudget.chargeMore(more);
        return answer;
      };
      return cache.answer(request, schema, pay, canary);
    },
    async callUncached(usd, ask) {
      await runBudget.charge(usd);
      return ask();
    },
    countBlocked: async (count) => {
      if (count > 0) await runBudget.countBlocked(count);
    },
  };
}
