/**
 * @file The cache of backends' answers, keyed by request: the hash of tool, backend and arguments names one object with the request and
 * its answer. The first writer wins, so every rollout of a run gets the same answer to the same request, and so does a replay.
 *
 *     live     calls, stores nothing
 *     cached   looks up, else calls and commits; the loser of a race adopts the stored answer
 *     replay   looks up; a missing answer is an error that names its object
 *
 * Requests that serve a question of an encrypted benchmark are stored encrypted, with their answers: a request reveals the question.
 *
 * Everything that becomes text in a conversation is stored, even the failure to open a page: otherwise a replay would diverge. Outages are
 * never stored. Concurrent callers of the same request in one process share one call, which continues when one of them aborts.
 */
import { createHash } from "node:crypto";
import * as z from "zod";
import { canonicalJson, parseJson } from "../../../../core/contracts/parse.ts";
import { MgrpoError } from "../../../../core/errors.ts";
import type { ObjectStore } from "../../../../core/ports.ts";
import { decryptedObjects, encryptedObjects } from "../../../../core/training/encrypted-objects.ts";

export interface CachedRequest {
  readonly tool: string;
  /** What determines the answer: the service, model or server. */
  readonly backend: string;
  readonly arguments: z.infer<ReturnType<typeof z.json>>;
}

export interface AnswerCache {
  /** The answer to a request. `ask` must not depend on a particular caller. A `canary` encrypts what is stored. */
  answer<T>(request: CachedRequest, schema: z.ZodType<T>, ask: () => Promise<T>, canary?: string): Promise<T>;
}

export interface CacheOptions {
  readonly mode: "live" | "cached" | "replay";
  readonly objects: ObjectStore;
  keyOf(sha256: string): string;
}

export function openAnswerCache({ mode, objects: plain, keyOf }: CacheOptions): AnswerCache {
  const objects = decryptedObjects(plain);
  const inFlight = new Map<string, Promise<unknown>>();

  async function lookUp<T>(key: string, schema: z.ZodType<T>): Promise<T | undefined> {
    const bytes = await objects.get(key);
    return bytes && parseJson(z.object({ answer: schema }), bytes, key).answer;
  }

  async function find<T>(
    request: CachedRequest,
    schema: z.ZodType<T>,
    ask: () => Promise<T>,
    key: string,
    canary: string | undefined,
  ): Promise<T> {
    const known = await lookUp(key, schema);
    if (known !== undefined) return known;
    if (mode === "replay") {
      throw new MgrpoError(
        "not-found",
        `replay: ${key} is missing: no answer of '${request.tool}' (${request.backend}) to ${canary === undefined ? shown(request.arguments) : "this request"} was recorded: record it with tools.cache.mode=cached`,
        { evidence: canary === undefined ? request : undefined },
      );
    }
    const answer = await ask();
    const body = new TextEncoder().encode(canonicalJson({ request, answer }));
    const committing = canary === undefined ? objects : encryptedObjects(objects, canary);
    if (await committing.commit(key, body)) return answer;
    const winner = await lookUp(key, schema);
    if (winner === undefined)
      throw new MgrpoError("record-damaged", `${key} was committed by another process but is missing`);
    return winner;
  }

  return {
    answer(request, schema, ask, canary) {
      const sha256 = createHash("sha256").update(canonicalJson(request)).digest("hex");
      const running = inFlight.get(sha256);
      if (running) return running as Promise<z.infer<typeof schema>>;
      const answer = mode === "live" ? ask() : find(request, schema, ask, keyOf(sha256), canary);
      const forget = () => inFlight.delete(sha256);
      inFlight.set(sha256, answer);
      answer.then(forget, forget);
      return answer;
    },
  };
}

const MAX_SHOWN = 200;
const shown = (value: unknown) => JSON.stringify(value).slice(0, MAX_SHOWN);

/** Rejects with the signal's reason if it aborts first. The work behind `value` continues. */
export async function abortable<T>(value: Promise<T>, signal: AbortSignal): Promise<T> {
  // After an abort, nothing else handles its rejection.
  value.catch(() => {});
  signal.throwIfAborted();
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
  });
  return Promise.race([value, aborted]).finally(() => signal.removeEventListener("abort", abort));
}
