/** @file Reads the body of a request. A setting that would change the reply is honored, overridden with a warning in the log, or refused. */
import * as z from "zod";
import { isShallow, MAX_DEPTH } from "../../../core/contracts/conversation.ts";
import { issueFault, jsonOrUndefined } from "../../../core/contracts/parse.ts";
import { ApiError, invalid } from "./errors.ts";

/** Settings that have no meaning here, or may be overridden: any value is accepted. */
export const ignored = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, z.unknown().optional()]));

/** Settings of OpenAI's own service. */
export const OPENAI_SERVICE = [
  "store",
  "metadata",
  "service_tier",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
];

export function readRequest<S extends z.ZodType>(schema: S, body: string): z.infer<S> {
  const json = jsonOrUndefined(body);
  if (json === undefined) throw new ApiError(400, "invalid_json", "the body is not JSON");
  if (!isShallow(json)) throw new ApiError(400, "invalid_value", `the body is more than ${MAX_DEPTH} levels deep`);
  return readPart(schema, withoutNulls(json));
}

/** A setting that is null is not set. */
function withoutNulls(json: unknown): unknown {
  if (json === null || typeof json !== "object" || Array.isArray(json)) return json;
  return Object.fromEntries(Object.entries(json).filter(([, value]) => value !== null));
}

/** @param where the path of the part in the body. */
export function readPart<S extends z.ZodType>(schema: S, part: unknown, ...where: PropertyKey[]): z.infer<S> {
  const parsed = schema.safeParse(part);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = [...where, ...(issue?.path ?? [])];
  if (issue?.code === "unrecognized_keys") {
    const param = [...path, issue.keys[0]].join(".");
    const message = `${param}: this gateway does not support it: leave it out`;
    throw new ApiError(400, "unknown_parameter", message, param);
  }
  const fault = issue ? issueFault(issue) : "invalid";
  if (path.length > 0) throw invalid(path.join("."), fault);
  throw new ApiError(400, "invalid_value", `the body: ${fault}`);
}
