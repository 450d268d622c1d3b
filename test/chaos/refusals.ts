/**
 * @file How real services refuse a request: status, headers and body as DynamoDB, S3 and an OpenAI-compatible server send them. A full disk
 * is refused as by the embedded cloud.
 */
import type { Channel, FaultKind } from "./schedule.ts";

export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Undefined: on this channel, this kind of fault is not a refusal. */
export function refusal(channel: Channel, kind: FaultKind): Refusal | undefined {
  if (channel === "dynamo") return DYNAMO[kind];
  if (channel === "s3") return S3[kind];
  return OTHER[kind];
}

type Refusals = Partial<Record<FaultKind, Refusal>>;

const dynamo = (status: number, type: string, message: string): Refusal => ({
  status,
  headers: { "content-type": "application/x-amz-json-1.0" },
  body: JSON.stringify({ __type: type, message }),
});

const DYNAMO: Refusals = {
  throttle: dynamo(
    400,
    "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
    "The level of configured provisioned throughput for the table was exceeded.",
  ),
  error: dynamo(500, "com.amazonaws.dynamodb.v20120810#InternalServerError", "The request processing has failed."),
  full: dynamo(507, "com.amazonaws.dynamodb.v20120810#InsufficientStorage", "no space is left on the disk"),
};

const s3 = (status: number, code: string, message: string): Refusal => ({
  status,
  headers: { "content-type": "application/xml" },
  body: `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${message}</Message></Error>`,
});

const S3: Refusals = {
  throttle: s3(503, "SlowDown", "Please reduce your request rate."),
  error: s3(500, "InternalError", "We encountered an internal error. Please try again."),
  full: s3(507, "InsufficientStorage", "no space is left on the disk"),
};

const other = (status: number, message: string, headers: Readonly<Record<string, string>> = {}): Refusal => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify({ error: { message, type: "error", param: null, code: null } }),
});

const OTHER: Refusals = {
  throttle: other(429, "Rate limit reached.", { "retry-after": "1" }),
  error: other(503, "The server is overloaded."),
};
