/** @file Errors of the gateway, and their format in OpenAI's APIs. `code` is OpenAI's where it has one for the case, else ours. */
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { isMgrpoError } from "../../../core/errors.ts";
import { LimitReached } from "../limit-reached.ts";

export class ApiError extends Error {
  readonly status: ContentfulStatusCode;
  readonly code: string;
  readonly param: string | null;

  constructor(status: ContentfulStatusCode, code: string, message: string, param: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

/** For a request that asks for something that the gateway does not support. */
export const unsupported = (param: string, message: string) => new ApiError(400, "unsupported_value", message, param);

export const invalid = (param: string, message: string) =>
  new ApiError(400, "invalid_value", `${param}: ${message}`, param);

export function openAiError({ status, code, param, message }: ApiError) {
  return { error: { message, type: status < 500 ? "invalid_request_error" : "server_error", param, code } };
}

/** The error that the app sees for a failed turn. Undefined: a bug of ours, to be logged and not shown. */
export function turnError(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error;
  if (error instanceof LimitReached) {
    const code = error.limit === "token-limit" ? "context_length_exceeded" : "turn_limit_exceeded";
    return new ApiError(400, code, `${error.message}: end this rollout, or raise the limit`, "messages");
  }
  if (!isMgrpoError(error)) return undefined;
  if (error.code !== "request-refused") return new ApiError(503, error.code, error.message);
  return new ApiError(400, error.code, error.message, "messages");
}
