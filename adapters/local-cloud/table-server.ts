/**
 * @file The DynamoDB API: dynalite on a LevelDB directory, behind a front that reads each request whole before dynalite sees it (a
 * client that dies in the middle of one would otherwise end this process), knows its callers, keeps a reserve on the disk, and counts
 * what writes cost.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import dynalite from "dynalite";
import { asS3Error } from "./s3/errors.ts";
import { type AuthenticationFault, AuthenticationError, type VerifySignature } from "./signature.ts";
import type { DiskSpace } from "./disk-space.ts";
import { readSynchronously } from "./synchronous-reads.ts";

const WRITE = /\.(PutItem|UpdateItem|DeleteItem|BatchWriteItem)$/;
const LARGEST_BODY = 16 * 2 ** 20;
const DISTRUST: Record<AuthenticationFault, string> = {
  unsigned: "MissingAuthenticationTokenException",
  malformed: "IncompleteSignatureException",
  "another-key": "UnrecognizedClientException",
  "another-region": "InvalidSignatureException",
  skewed: "InvalidSignatureException",
  "body-unsigned": "InvalidSignatureException",
  mismatch: "InvalidSignatureException",
};
/** dynalite looks whether a request is signed, not by whom. */
const OWN_HEADERS = {
  "content-type": "application/x-amz-json-1.0",
  authorization: "AWS4-HMAC-SHA256 Credential=own, SignedHeaders=host, Signature=none",
  "x-amz-date": "20000101T000000Z",
};

/** Of all callers since the cloud started. Units of writes whose condition failed are counted as 1 each. */
export interface TableWrites {
  readonly requests: number;
  readonly bytes: number;
  readonly units: number;
}

export interface TableServer {
  readonly server: Server;
  /** A call of this process itself: no request, no signature. Throws what the API answers, under the error's own name. */
  call(operation: string, input: object): Promise<unknown>;
  writes(): TableWrites;
}

type Request = Pick<IncomingMessage, "headers" | "method" | "url">;
type Handler = (request: Readable, response: unknown) => void;

interface Answer {
  readonly status: number;
  readonly headers: Record<string, string | number>;
  readonly body: string;
}

export function createTableServer(directory: string, verify: VerifySignature, space: DiskSpace): TableServer {
  readSynchronously();
  // Closing this server closes the database too, so it is the one that listens.
  const server = dynalite({ path: directory, createTableMs: 0 });
  const handler = server.listeners("request")[0] as Handler;
  server.removeAllListeners("request");
  server.keepAliveTimeout = 60_000;
  let writes: TableWrites = { requests: 0, bytes: 0, units: 0 };

  async function answer(request: Request, text: string): Promise<Answer> {
    if (!WRITE.test(String(request.headers["x-amz-target"]))) return ask(handler, request, text);
    const bytes = Buffer.byteLength(text);
    await space.reserve(bytes);
    const answered = await ask(handler, request, askedForCapacity(text));
    const units = Number(/"CapacityUnits":([\d.]+)/.exec(answered.body)?.[1] ?? 1);
    writes = { requests: writes.requests + 1, bytes: writes.bytes + bytes, units: writes.units + units };
    return answered;
  }

  const refused = (thrown: unknown) => {
    if (thrown instanceof AuthenticationError) return refusal(400, DISTRUST[thrown.reason], thrown.message);
    const error = asS3Error(thrown);
    return refusal(error.status, error.code, error.message);
  };

  async function received(request: IncomingMessage): Promise<Answer> {
    const body = await bodyOf(request);
    const { method = "", url = "", headers } = request;
    await verify({ method, url, headers, body });
    return answer(request, body.toString());
  }

  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    received(request)
      .catch(refused)
      .then(({ status, headers, body }) => response.writeHead(status, headers).end(body));
  });
  return {
    server,
    async call(operation, input) {
      const headers = { ...OWN_HEADERS, "x-amz-target": `DynamoDB_20120810.${operation}` };
      const request = { headers, method: "POST", url: "/" };
      const { status, body } = await answer(request, JSON.stringify(input)).catch(refused);
      const parsed: { __type?: string; message?: string } = JSON.parse(body);
      if (status === 200) return parsed;
      const name = parsed.__type?.split("#").at(-1);
      throw Object.assign(new Error(parsed.message), { name, $metadata: { httpStatusCode: status } });
    },
    writes: () => writes,
  };
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    size += piece.length;
    if (size <= LARGEST_BODY) pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** dynalite tells the units of a write when it is asked to; the caller need not pay the bytes for asking. */
function askedForCapacity(body: string): string {
  return body.includes('"ReturnConsumedCapacity"')
    ? body
    : body.replace(/\}\s*$/, ',"ReturnConsumedCapacity":"TOTAL"}');
}

function ask(handler: Handler, { headers, method, url }: Request, text: string): Promise<Answer> {
  return new Promise((resolve) => {
    const answered: Record<string, string | number> = {};
    const request = Object.assign(Readable.from(text === "" ? [] : [Buffer.from(text)]), { headers, method, url });
    const response = {
      statusCode: 200,
      setHeader: (name: string, value: string | number) => {
        answered[name] = value;
      },
      end: (body = "") => resolve({ status: response.statusCode, headers: answered, body }),
    };
    handler(request, response);
  });
}

function refusal(status: number, name: string, message: string): Answer {
  const body = JSON.stringify({ __type: `com.amazonaws.dynamodb.v20120810#${name}`, message });
  return { status, headers: { "content-type": "application/x-amz-json-1.0" }, body };
}
