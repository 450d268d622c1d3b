/**
 * @file What backends answered, by content: the hash of tool, backend and arguments names one object that holds request and answer. First
 * writer wins, so all rollouts of a run that ask the same are told the same, and so is whoever replays it.
 *
 *     live     asks, keeps nothing
 *     cached   looks, else asks and commits; who loses the race adopts what is there
 *     replay   looks; what is not there is an error that names the request
 *
 * What is asked about a question of an encrypted benchmark is kept encrypted, pages and all: a request says what the question says.
 *
 * Whatever becomes text in a conversation is kept, a page that could not be opened like one that could: otherwise no replay could
 * follow. An outage is never kept. Callers of one process that ask the same at the same time share one request; it goes on when one of
 * them gives up.
 */
import { createHash } from "node:crypto";
import * as z from "zod";
import { canonicalJson, parseJson } from "../../../../core/contracts/parse.ts";
import { MgrpoError } from "../../../../core/errors.ts";
import type { ObjectStore } from "../../../../core/ports.ts";
import { encryptedObjects, openedObjects } from "../../../../core/training/encrypted-objects.ts";

export interface CachedRequest {
  readonly tool: string;
  /** Which service, model or server, as far as it decides the answer. */
  readonly backend: string;
  readonly arguments: z.infer<ReturnType<typeof z.json>>;
}

export interface AnswerCache {
  /** The answer to a request. `ask` must not depend on any one caller. With a `canary` it is encrypted by it where it is kept. */
  answer<T>(request: CachedRequest, schema: z.ZodType<T>, ask: () => Promise<T>, canary?: string): Promise<T>;
}

export interface CacheOptions {
  readonly mode: "live" | "cached" | "replay";
  readonly objects: ObjectStore;
  keyOf(sha256: string): string;
}

export function openAnswerCache({ mode, objects: plain, keyOf }: CacheOptions): AnswerCache {
  const objects = openedObjects(plain);
  const open = new Map<string, Promise<unknown>>();

  async function kept<T>(key: string, schema: z.ZodType<T>): Promise<T | undefined> {
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
    const known = await kept(key, schema);
    if (known !== undefined) return known;
    if (mode === "replay") {
      throw new MgrpoError(
        "not-found",
        `replay: ${key} is not there: '${request.tool}' was never asked ${canary === undefined ? shown(request.arguments) : "this"} of ${request.backend}; record it with tools.cache.mode=cached`,
        { evidence: canary === undefined ? request : undefined },
      );
    }
    const answer = await ask();
    const body = new TextEncoder().encode(canonicalJson({ request, answer }));
    const committing = canary === undefined ? objects : encryptedObjects(objects, canary);
    if (await committing.commit(key, body)) return answer;
    const winner = await kept(key, schema);
    if (winner === undefined) throw new MgrpoError("record-damaged", `${key} was committed by another and is gone`);
    return winner;
  }

  return {
    answer(request, schema, ask, canary) {
      const sha256 = createHash("sha256").update(canonicalJson(request)).digest("hex");
      const running = open.get(sha256);
      if (running) return running as Promise<z.infer<typeof schema>>;
      const answer = mode === "live" ? ask() : find(request, schema, ask, keyOf(sha256), canary);
      const forget = () => open.delete(sha256);
      open.set(sha256, answer);
      answer.then(forget, forget);
      return answer;
    },
  };
}

const LONGEST_SHOWN = 200;
const shown = (value: unknown) => JSON.stringify(value).slice(0, LONGEST_SHOWN);

/** The value, unless the signal aborts first: then its reason. What makes the value goes on. */
export async function abortable<T>(value: Promise<T>, signal: AbortSignal): Promise<T> {
  // Nobody may be left to hear of its failure.
  value.catch(() => {});
  signal.throwIfAborted();
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
  });
  return Promise.race([value, aborted]).finally(() => signal.removeEventListener("abort", abort));
}
