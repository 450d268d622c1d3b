/**
 * @file The APIs of OpenAI and Anthropic for the agents of a team. The key, as a bearer token or as `x-api-key`, selects the team: that of
 * an attempt, or the one that `mgrpo serve` serves. The model selects the agent.
 *
 *     POST /v1/chat/completions   200 the reply, or server-sent events · 400 the request is invalid or unsupported, or a limit of
 *     POST /v1/responses          the agent is reached · 401 the key is unknown, or its attempt has ended · 404 no such agent · 413
 *     POST /v1/messages           · 503 infrastructure failed · 500 a bug of the server: its log has the error
 *     GET  /v1/models             the team's agents
 *     GET  /v1/models/<agent>     one of them · 404 no such agent
 *     POST /v1/rewards            204 the attempt has these rewards · 400 · 401 · 409 it has others, or one names no sub-agent · 413
 *
 * `mgrpo serve` does not have /v1/rewards (404). It keeps no responses, so a request that refers to an earlier one is invalid (400).
 */
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import type { TurnReply, TurnRequest } from "../../../core/contracts/app-chat.ts";
import { GivenRewards } from "../../../core/contracts/app-rollout.ts";
import { type Log, stackOf } from "../../log.ts";
import type { Attempt } from "../attempt.ts";
import type { OpenAttempts } from "../attempts.ts";
import { CREATED, chatCompletions } from "./chat-reply.ts";
import { deliveryOf, isCutOff } from "./delivery.ts";
import { type Dialect, type RequestedSampling, requestedSampling } from "./dialect.ts";
import { ApiError, turnError } from "./errors.ts";
import { eventStream } from "./event-stream.ts";
import { messages } from "./messages-reply.ts";
import { readRequest } from "./read-request.ts";
import { responses } from "./responses-reply.ts";

const MAX_BODY_BYTES = 4 << 20;

/** The agents that a key gives access to. */
export interface ChatTeam {
  readonly agents: readonly string[];
  turn(agent: string, request: TurnRequest, signal: AbortSignal, requested: RequestedSampling): Promise<TurnReply>;
  /** A reply is on its way to the client. */
  delivering(agent: string, exchange: string, delivery: Promise<boolean>): void;
  /** Undefined, or why the rewards are refused. Absent: nothing is trained. */
  giveRewards?(given: GivenRewards): string | undefined;
}

/** What is behind the APIs. */
export interface ChatHost {
  /** The team of the first of a request's keys that is known. Throws ApiError if none is, or if that key's attempt has ended. */
  teamOf(keys: readonly string[]): ChatTeam;
  readonly dialects: readonly Dialect[];
  /** Sampling settings of requests that its teams honor. */
  readonly honored: readonly string[];
  /** Why other settings have no effect: logged once for each. */
  readonly why: string;
  /** Whether refused requests are logged, once for each kind. */
  readonly logsRefusals: boolean;
}

interface Shared {
  readonly host: ChatHost;
  readonly log: Log;
  readonly warnOverridden: (settings: readonly string[]) => void;
}

/** A request that asks for something that these APIs do not have: the app's code must change. The app may have caught the error. */
const isRefusal = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.status === 400 || error.code === "model_not_found");

/** Of the same kind are refusals with the same code and parameter, whatever its position in a list. */
const kindOf = ({ code, param }: ApiError) => `${code} ${param?.replace(/\.\d+(?=\.|$)/g, ".*") ?? ""}`;

/** The gateway of the open attempts. @param prefix the first part of its path. */
export function gatewayApp(prefix: string, attempts: OpenAttempts, log: Log): Hono {
  const dialects = [chatCompletions, responses, messages];
  const why = "the run's config says how the agents sample, and their chat templates what they are shown";
  const teamOf = (keys: readonly string[]) => attemptOf(keys, attempts);
  return chatApp(`/${prefix}`, { teamOf, dialects, honored: [], why, logsRefusals: true }, log);
}

/** @param prefix what comes before `/v1`; empty, or beginning with a slash. */
export function chatApp(prefix: string, host: ChatHost, log: Log): Hono {
  const app = new Hono().basePath(`${prefix}/v1`);
  const warnOverridden = onceEach((settings) =>
    log.warn(`these settings of requests have no effect: ${host.why}`, { settings: settings.join(", ") }),
  );
  const shared: Shared = { host, log, warnOverridden };

  app.use(bodyLimit({ maxSize: MAX_BODY_BYTES, onError: tooLarge }));

  app.get("/models", (context) => {
    const { agents } = teamFor(context, host);
    return context.json({ object: "list", data: agents.map(modelOf) });
  });

  app.get("/models/:agent", (context) => {
    const agent = context.req.param("agent");
    requireAgent(teamFor(context, host), agent);
    return context.json(modelOf(agent));
  });

  for (const dialect of host.dialects) {
    // Anthropic's own clients add a second /v1 to the base URL.
    for (const path of dialect.path === messages.path ? [dialect.path, `/v1${dialect.path}`] : [dialect.path]) {
      app.post(path, (context) => answer(context, shared, dialect));
    }
  }

  app.post("/rewards", async (context) => {
    if (!teamFor(context, host).giveRewards) return context.notFound();
    const given = readRequest(GivenRewards, await context.req.text());
    // The attempt may have ended while the body arrived.
    const fault = teamFor(context, host).giveRewards?.(given);
    if (fault !== undefined) throw new ApiError(409, "reward_refused", fault);
    return context.body(null, 204);
  });

  app.notFound((context) => errorResponse(context, noEndpoint(context, prefix, host)));
  const refusalsLogged = new Set<string>();
  app.onError((error, context) => {
    if (isCutOff(context)) return errorResponse(context, CUT_OFF);
    if (host.logsRefusals && isRefusal(error) && !refusalsLogged.has(kindOf(error))) {
      refusalsLogged.add(kindOf(error));
      log.warn("a request was refused", { reason: error.message });
    }
    return errorResponse(context, apiErrorOf(error, log));
  });
  return app;
}

async function answer(context: Context, { host, log, warnOverridden }: Shared, dialect: Dialect): Promise<Response> {
  const team = teamFor(context, host);
  const request = dialect.read(await context.req.text());
  // The attempt may have ended while the body arrived.
  teamFor(context, host);
  requireAgent(team, request.model);
  const { turn, keep } = dialect.turn(request, team);
  warnOverridden(dialect.overridden.filter((path) => !host.honored.includes(path) && isSet(request, path)));
  const delivery = deliveryOf(context);
  const sent = team.turn(request.model, turn, context.req.raw.signal, requestedSampling(request)).then((reply) => {
    keep?.(reply);
    team.delivering(request.model, reply.exchange, delivery);
    return reply;
  });
  if (!request.stream) return context.json(dialect.reply(await sent, request));
  return eventStream(
    sent.then((reply) => dialect.events(reply, request)),
    (error) => dialect.errorEvent(apiErrorOf(error, log)),
  );
}

const modelOf = (agent: string) => ({ id: agent, object: "model", created: CREATED, owned_by: "mgrpo" });

/** A wrong base URL, or a request for another server: clients often send embeddings to the same one. */
function noEndpoint({ req }: Context, prefix: string, { dialects }: ChatHost): ApiError {
  const { pathname } = new URL(req.url);
  const base = `${prefix}/v1`;
  const isBelow = pathname.startsWith(`${base}/`);
  const asked = `${req.method} ${isBelow ? pathname.slice(prefix.length) : pathname}`;
  const served = dialects.map(({ path }) => `POST /v1${path}`).join(", ");
  const remedy = isBelow
    ? `this server has ${served} and GET /v1/models: send requests for others elsewhere`
    : "it is not below the base URL, which ends in /v1: give the client the whole base URL";
  return new ApiError(404, "unknown_url", `no such endpoint: ${asked}: ${remedy}`);
}

/** For a request whose client left before its body was complete. */
const CUT_OFF = new ApiError(400, "invalid_json", "the body is incomplete: the connection was closed");

/** The error that the app sees. */
function apiErrorOf(error: unknown, log: Log): ApiError {
  const expected = turnError(error);
  if (expected) return expected;
  log.error("gateway request failed", { error: stackOf(error) });
  return new ApiError(500, "internal_error", "the server failed; see its log");
}

function teamFor(context: Context, { teamOf }: ChatHost): ChatTeam {
  const bearer = /^Bearer\s+(\S+)$/i.exec(context.req.header("authorization") ?? "")?.[1];
  return teamOf([bearer ?? "", context.req.header("x-api-key") ?? ""]);
}

function attemptOf(keys: readonly string[], attempts: OpenAttempts): Attempt {
  const attempt = keys.map((key) => attempts.find(key)).find((found) => found !== "unknown") ?? "unknown";
  if (attempt === "unknown") {
    throw new ApiError(401, "invalid_api_key", "this gateway did not issue the key: use the apiKey of the attempt");
  }
  if (attempt === "over") {
    throw new ApiError(401, "attempt_over", "the attempt of this key has ended: requests with it are refused");
  }
  return attempt;
}

function requireAgent({ agents }: ChatTeam, model: string): void {
  if (agents.includes(model)) return;
  const message = `'${model}' is not an agent of this team: set model to one of ${agents.join(", ")}`;
  throw new ApiError(404, "model_not_found", message, "model");
}

const tooLarge = (context: Context) =>
  errorResponse(context, new ApiError(413, "request_too_large", `the request is larger than ${MAX_BODY_BYTES} bytes`));

/** In the format of the API that was called, even if its endpoint, such as `/v1/messages/count_tokens`, does not exist here. */
function errorResponse(context: Context, error: ApiError): Response {
  const { errorBody } = `${context.req.path}/`.includes(`${messages.path}/`) ? messages : chatCompletions;
  return context.json(errorBody(error), error.status);
}

/** @param path names, joined by dots; `*` stands for each element of an array. */
function isSet(request: object, path: string): boolean {
  const valuesIn = (part: unknown, name: string): unknown[] => {
    if (name === "*") return Array.isArray(part) ? part : [];
    return [(part as Record<string, unknown> | null | undefined)?.[name]];
  };
  const values = path
    .split(".")
    .reduce<unknown[]>((parts, name) => parts.flatMap((part) => valuesIn(part, name)), [request]);
  return values.some((value) => value != null && value !== false);
}

/** Returns a function that writes only the names that it has not written before. */
function onceEach(write: (names: readonly string[]) => void): (names: readonly string[]) => void {
  const written = new Set<string>();
  return (names) => {
    const fresh = names.filter((name) => !written.has(name));
    if (fresh.length === 0) return;
    for (const name of fresh) written.add(name);
    write(fresh);
  };
}
