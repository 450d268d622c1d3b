/** @file The writes to a trial's store, parsed from the requests that its two APIs receive. */
import type { Channel } from "./schedule.ts";

/** A request as the proxy received it. */
export interface StoreRequest {
  readonly channel: Channel;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

export interface Attribute {
  readonly S?: string;
  readonly N?: string;
}

/** Keys of items are `<pk> <sk>`. */
export type StoreWrite =
  /** An object. `isCommit`: it is written only if there is none. */
  | { readonly kind: "put"; readonly key: string; readonly isCommit: boolean }
  | { readonly kind: "insert"; readonly key: string; readonly item: Readonly<Record<string, Attribute>> }
  /** `set`: path -> value, in order. `added`: attribute -> what is added to it. */
  | {
      readonly kind: "update";
      readonly key: string;
      readonly set: ReadonlyMap<string, Attribute>;
      readonly added: ReadonlyMap<string, Attribute>;
    };

/** Undefined if the request is not a write to the store, or if it deletes. */
export function writeOf(request: StoreRequest): StoreWrite | undefined {
  const { channel, method, path, headers } = request;
  if (channel === "s3") {
    if (method !== "PUT") return undefined;
    return { kind: "put", key: objectKey(path), isCommit: headers["if-none-match"] === "*" };
  }
  return channel === "dynamo" ? tableWrite(request) : undefined;
}

const objectKey = (path: string) => decodeURIComponent(path.split("?", 1)[0] ?? "").replace(/^\/[^/]+\//, "");

function tableWrite({ headers, body }: StoreRequest): StoreWrite | undefined {
  const operation = String(headers["x-amz-target"] ?? "")
    .split(".")
    .at(-1);
  if (operation !== "PutItem" && operation !== "UpdateItem") return undefined;
  const input = JSON.parse(body.toString("utf8"));
  if (operation === "PutItem") return { kind: "insert", key: keyText(input.Item), item: input.Item };
  return { kind: "update", key: keyText(input.Key), ...changesOf(input) };
}

const keyText = ({ pk, sk }: { pk?: Attribute; sk?: Attribute }) => `${pk?.S} ${sk?.S}`;

interface UpdateInput {
  readonly UpdateExpression: string;
  readonly ExpressionAttributeNames?: Readonly<Record<string, string>>;
  readonly ExpressionAttributeValues?: Readonly<Record<string, Attribute>>;
}

/** What an update expression of adapters/aws/expression.ts sets, and what it adds to. */
function changesOf(input: UpdateInput) {
  const { UpdateExpression, ExpressionAttributeNames: names = {}, ExpressionAttributeValues: values = {} } = input;
  const named = (path: string) => path.replaceAll(/#\d+/g, (short) => names[short] ?? short);
  const assigned = UpdateExpression.matchAll(/([#\w.]+) = (:\d+)/g);
  const [, additions = ""] = /\bADD (.*?)(?: REMOVE |$)/.exec(UpdateExpression) ?? [];
  return {
    set: new Map([...assigned].map(([, path = "", value = ""]) => [named(path), values[value] ?? {}])),
    added: new Map(
      [...additions.matchAll(/(#\d+) (:\d+)/g)].map(([, path = "", value = ""]) => [named(path), values[value] ?? {}]),
    ),
  };
}
