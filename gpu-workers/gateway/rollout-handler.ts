/**
 * @file The app's side of `runner: { url }`: takes signed attempts and runs the app on them. For apps in other languages,
 * docs/your-own-agents.md describes the signature.
 */
import { withAnySignal } from "../../core/any-signal.ts";
import { AppCall } from "../../core/contracts/app-rollout.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { errorText, isMgrpoError } from "../../core/errors.ts";
import { readAtMost } from "../../core/read-at-most.ts";
import type { Rollout } from "../../core/recipe.ts";
import { openCallVerifier, openReportSigner } from "../invocations/signature.ts";
import { LONGEST_TIMER } from "../limits.ts";
import { MIN_SECRET_CHARACTERS, recipeRunner } from "./runners.ts";

/** Room for a question with several attachments in its facts, each of 500,000 characters. */
const MAX_BODY_BYTES = 16 << 20;

/** What verifies a worker's calls: the secret of their HMAC-SHA256, and the clock that their time is compared with. */
export interface RolloutHandlerOptions {
  /** The secret in the workers' environment variable that `runner.secretVariable` names. At least 16 characters. */
  readonly secret: string;
  /** Milliseconds since 1970, at most five minutes off the clock of the run's store. Absent: this machine's clock. */
  readonly now?: () => number;
}

/**
 * A handler of POST requests, for any server that uses `Request` and `Response`. 401: the call is not signed with the secret, or its time is
 * more than five minutes off. 409: a copy of the call was received before. 413: the body is larger than 16 MiB. 400: it is malformed. 500: the
 * app threw. A 401 or 413 halts the run, unless the call was late because the worker's machine slept. After any other error the worker logs
 * the message and repeats the attempt. If the app threw because an agent had reached one of its limits, the rollout is finished instead,
 * without an answer.
 */
export function rolloutHandler(
  rollout: Rollout,
  { secret, now = Date.now }: RolloutHandlerOptions,
): (request: Request) => Promise<Response> {
  if (secret.length < MIN_SECRET_CHARACTERS) {
    throw new RangeError(`the secret has fewer than ${MIN_SECRET_CHARACTERS} characters`);
  }
  const verify = openCallVerifier(secret, { storeTime: async () => now() });
  const signReport = openReportSigner(secret);
  const { run } = recipeRunner(rollout);
  return async (request) => {
    const header = (name: string) => request.headers.get(name) ?? undefined;
    // Stops reading at the limit: the caller is not authenticated yet.
    const body = await readAtMost(request.body, MAX_BODY_BYTES);
    if (!body) return new Response(`the body is larger than ${MAX_BODY_BYTES >> 20} MiB`, { status: 413 });
    const { pathname, search } = new URL(request.url);
    const refusal = await verify({ method: request.method, path: pathname + search, body }, header);
    if (refusal) return new Response(refusal.reason, { status: refusal.status });
    try {
      const call = parseJson(AppCall, body, "the attempt", "event-malformed");
      // For an app that returns nothing, the worker gets `null` and refuses it.
      const given = await withAnySignal([request.signal, timeoutOf(call)], (signal) => run(call, signal));
      const result = JSON.stringify(given ?? null);
      return new Response(result, { headers: { "content-type": "application/json", ...signReport(result, header) } });
    } catch (error) {
      const status = isMgrpoError(error, "event-malformed") ? 400 : 500;
      return new Response(errorText(error), { status });
    }
  };
}

/** Aborts when the attempt's time is up. */
const timeoutOf = ({ seconds }: AppCall) => AbortSignal.timeout(Math.min(Math.ceil(seconds * 1000), LONGEST_TIMER));
