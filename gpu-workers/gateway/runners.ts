/**
 * @file Runs an app: in this process (a recipe's rollout.ts), or elsewhere, by one signed POST per attempt.
 *
 *     POST <runner.url>   body: AppCall, signed like a call between workers (invocations/signature.ts), with the path and query of the URL
 *                         200 AppResult as JSON, signed with the call's nonce
 *                         401, 413, 200 without a valid signature, or JSON other than an AppResult: an error that no retry fixes
 *                         409: a copy of the call had arrived before: the attempt fails and is retried, even if an agent had reached a limit
 *                         401 to a call that arrived late, e.g. because the machine slept, 502, 503, 504, no complete response, or a 200
 *                         that is too long or not JSON: as 409
 *                         any other status: the attempt fails and is retried, unless an agent had reached a limit: then the app may have
 *                         given up (app-rollout.ts)
 */
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { RunnerConfig } from "../../core/contracts/runner.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Clock } from "../../core/ports.ts";
import type { Rollout } from "../../core/recipe.ts";
import { openCallSigner } from "../invocations/signature.ts";
import type { AnsweredError, AppRunner } from "./app-rollout.ts";

/** Minimum length of the secret that the workers and a remote app share. */
export const MIN_SECRET_CHARACTERS = 16;
const MAX_RESPONSE_CHARACTERS = 1 << 20;
const REDIRECT = /^3\d\d$/;

export function recipeRunner(rollout: Rollout): AppRunner {
  return {
    async run({ question, agents }, signal) {
      const named = Object.entries(agents).map(([name, access]) => [name, { ...access, name }] as const);
      return rollout({ question, agents: Object.fromEntries(named), signal });
    },
  };
}

type RemoteRunner = Exclude<RunnerConfig, string>;

/** Throws `config-invalid` if the secret is missing or too short. */
export function httpRunner(
  { url, secretVariable }: RemoteRunner,
  environment: Readonly<Record<string, string | undefined>>,
  clock: Pick<Clock, "storeTime">,
): AppRunner {
  const secret = environment[secretVariable] ?? "";
  if (secret.length < MIN_SECRET_CHARACTERS) {
    const message = `runner.url: set ${secretVariable} to a secret of at least ${MIN_SECRET_CHARACTERS} characters, the same for workers and the app`;
    throw new MgrpoError("config-invalid", message);
  }
  const sign = openCallSigner(secret, clock);
  const { pathname, search } = new URL(url);
  return {
    isTimed: true,
    async run(call, signal) {
      const body = canonicalJson(call);
      const signed = await sign({ method: "POST", path: pathname + search, body });
      const response = await post(url, body, signed.headers, signal);
      const answer = await textOf(response).catch((cause: Error) => {
        throw signal.aborted ? cause : failed(url, `broke off its answer (${cause.message})`, { cause });
      });
      if (response.statusCode !== 200) {
        const { statusCode: status = 0, headers } = response;
        const reason = answer.slice(0, 300);
        if (status === 401 && (await signed.isOld())) throw failed(url, `refused a call that was late: ${reason}`);
        if (status === 409) throw failed(url, `refused a call whose copy had arrived before: ${reason}`);
        const why = {
          status,
          reason,
          location: REDIRECT.test(String(status)) ? headers.location : undefined,
          bytes: Buffer.byteLength(body),
        };
        throw refused(url, why, secretVariable);
      }
      if (answer.length > MAX_RESPONSE_CHARACTERS) {
        throw failed(url, `answered with more than ${MAX_RESPONSE_CHARACTERS} characters`);
      }
      const header = (name: string) => [response.headers[name] ?? []].flat()[0] ?? null;
      if (!signed.isAuthenticReport(answer, header)) {
        const why = `its answer is not signed with the secret in ${secretVariable}`;
        throw new MgrpoError("app-failed", `the app at ${url}: ${why}: see docs/your-own-agents.md`);
      }
      return jsonOf(url, answer);
    },
  };
}

/**
 * Node's fetch gives up after five minutes without a response; a rollout may take longer. Each call has a connection of its own: if an app
 * answers before it has read the whole body and then closes a kept-alive connection, Node can throw the failed write where nothing catches it.
 */
function post(
  url: string,
  body: string,
  signature: Record<string, string>,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const send = new URL(url).protocol === "https:" ? httpsRequest : httpRequest;
  const headers = {
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    ...signature,
  };
  return new Promise((resolve, reject) => {
    const request = send(url, { method: "POST", headers, signal, agent: false }, resolve);
    request.on("error", (cause) =>
      reject(signal.aborted ? cause : failed(url, `does not answer (${cause.message})`, { cause })),
    );
    request.end(body);
  });
}

/** The text of a response. No more is read once it has exceeded the limit. */
async function textOf(response: IncomingMessage): Promise<string> {
  let answer = "";
  for await (const chunk of response.setEncoding("utf8")) {
    answer += chunk;
    if (answer.length > MAX_RESPONSE_CHARACTERS) break;
  }
  return answer;
}

/** A response other than a 200. `bytes`: the size of the call. */
interface RefusedCall {
  readonly status: number;
  readonly reason: string;
  /** Where a redirect leads; undefined for any other response. */
  readonly location: string | undefined;
  readonly bytes: number;
}

/** A 401 or 413 is a mistake that no retry fixes. */
function refused(url: string, { status, reason, location, bytes }: RefusedCall, secretVariable: string): MgrpoError {
  const { pathname, search } = new URL(url);
  const remedies = new Map([
    [
      401,
      `does the app have the workers' secret (${secretVariable}) and the right time, and does it see the whole path of the call, ${pathname}${search}?`,
    ],
    [413, `the call has ${bytes} bytes: raise the limit of the app, or of the proxy in front of it`],
  ]);
  const remedy = remedies.get(status);
  if (remedy === undefined) {
    const elsewhere =
      location === undefined ? "" : `it redirects to ${location}, which is not followed: change runner.url`;
    return failed(url, `answered ${status}: ${elsewhere || reason || "no reason given"}`, { evidence: { status } });
  }
  return new MgrpoError("app-failed", `the app at ${url} refused the call: ${reason}; ${remedy}`);
}

function jsonOf(url: string, answer: string): unknown {
  try {
    return JSON.parse(answer);
  } catch (cause) {
    throw failed(url, "answered with text that is not JSON", { cause });
  }
}

const failed = (url: string, why: string, options: { cause?: unknown; evidence?: AnsweredError } = {}) =>
  new MgrpoError("app-failed", `the app at ${url} ${why}`, { retryable: true, ...options });
