/** @file What the gateway needs to know about an API: how a request asks for a turn, and how replies and errors are written. */
import type { TurnReply, TurnRequest } from "../../../core/contracts/app-chat.ts";
import type { ApiError } from "./errors.ts";
import type { ServerEvent } from "./event-stream.ts";

/** What the requests of all APIs have in common. */
export interface ApiRequest {
  /** The agent. */
  readonly model: string;
  readonly stream?: boolean | null | undefined;
}

/** The sampling that a request asks for. Only a team that honors `temperature` and `topP` checks them. */
export interface RequestedSampling {
  readonly temperature: unknown;
  readonly topP: unknown;
  readonly seed: unknown;
}

export function requestedSampling(request: ApiRequest): RequestedSampling {
  const { temperature, top_p: topP, seed } = request as { temperature?: unknown; top_p?: unknown; seed?: unknown };
  return { temperature, topP, seed };
}

export interface RequestedTurn {
  readonly turn: TurnRequest;
  /** Called with the reply before it is sent. */
  keep?(reply: TurnReply): void;
}

export interface Dialect<R extends ApiRequest = ApiRequest> {
  /** Of its endpoint, below /v1 and with a leading slash: `/messages`. */
  readonly path: string;
  /** Settings without effect in training, as paths such as `text.verbosity`, where `*` is each element of an array. */
  readonly overridden: readonly string[];
  /** Throws ApiError, as `turn` does. The error names the parameter at fault, if there is one. */
  read(body: string): R;
  /** @param attempt identifies the attempt, whose earlier responses a request may refer to. */
  turn(request: R, attempt: object): RequestedTurn;
  reply(turn: TurnReply, request: R): object;
  /** The reply as a stream. */
  events(turn: TurnReply, request: R): readonly ServerEvent[];
  errorBody(error: ApiError): object;
  /** An error in the middle of a stream. */
  errorEvent(error: ApiError): ServerEvent;
}
