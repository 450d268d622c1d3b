/**
 * @file What all tools that ask somebody outside have in common, in the order in which a call passes it:
 *
 *     rollout's budget ──spent──> text                (context.budget: before anything is awaited, so in the order of the text)
 *     cache ──there──> the answer
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
  /** What the answer turned out to cost beside the price. */
  readonly costOf?: (answer: T) => number;
  /** Of the question that it is asked for. */
  readonly canary?: string | undefined;
}

export interface ExternalCalls {
  readonly backends: Backends;
  readonly guard: LeakageGuard;
  bucket(requestsPerSecond: number): TokenBucket;
  /** From the cache, or asked and paid for. */
  call<T>(
    request: CachedRequest,
    schema: z.ZodType<T>,
    usd: number,
    ask: () => Promise<T>,
    options?: CallOptions<T>,
  ): Promise<T>;
  /** Asked and paid for, whatever was answered before. */
  callUncached<T>(usd: number, ask: () => Promise<T>): Promise<T>;
  countBlocked(count: number): Promise<void>;
}

export function openExternalCalls({ cache, runBudget: run, backends, guard }: ExternalCallsOptions): ExternalCalls {
  return {
    ...{ backends, guard, bucket: openBucket },
    call(request, schema, usd, ask, { costOf, canary } = {}) {
      const pay = async () => {
        await run.charge(usd);
        const answer = await ask();
        const more = costOf?.(answer) ?? 0;
        if (more > 0) await run.chargeMore(more);
        return answer;
      };
      return cache.answer(request, schema, pay, canary);
    },
    async callUncached(usd, ask) {
      await run.charge(usd);
      return ask();
    },
    countBlocked: async (count) => {
      if (count > 0) await run.countBlocked(count);
    },
  };
}
