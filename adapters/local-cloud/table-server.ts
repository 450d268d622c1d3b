/**
 * @file The DynamoDB API, over HTTP and for this process itself. Reads each HTTP request whole and authenticates it, refuses writes that
 * do not fit on the disk or in the quota, and counts what writes cost.
 */
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { jsonOrUndefined } from "../../core/contracts/parse.ts";
import type { StoreWrites } from "../../core/contracts/store-writes.ts";
import { expressionFault } from "../aws/limits.ts";
import { AuthenticationError, type AuthenticationFault, type VerifyRequest } from "./authentication.ts";
import type { DiskSpace } from "./disk-space.ts";
import { asS3Error } from "./s3/errors.ts";
import {
  apiError,
  type DynamoApiError,
  isApiError,
  type JsonBody,
  openTableDatabase,
  type TableDatabase,
} from "./table-database.ts";

const WRITE_OPERATIONS = new Set(["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"]);
const NAMESPACE = "com.amazonaws.dynamodb.v20120810#";
const MAX_BODY_BYTES = 16 * 2 ** 20;
const FAULT_NAMES: Record<AuthenticationFault, string> = {
  unsigned: "MissingAuthenticationTokenException",
  malformed: "IncompleteSignatureException",
  "another-key": "UnrecognizedClientException",
  "another-region": "InvalidSignatureException",
  skewed: "InvalidSignatureException",
  "body-unsigned": "InvalidSignatureException",
  mismatch: "InvalidSignatureException",
};

export interface TableServer {
  readonly server: Server;
  /** A call by this process, without HTTP or a signature. Rejects as the SDK does, with an error whose name is the API's error code. */
  call(operation: string, input: object): Promise<JsonBody>;
  /** The writes of all callers since the start. A write that fails in the database counts as 1 unit; one refused earlier is not counted. */
  writes(): StoreWrites;
  /** To be called after the server has stopped. */
  close(): Promise<void>;
}

export async function openTableServer(
  directory: string,
  verify: VerifyRequest,
  space: DiskSpace,
): Promise<TableServer> {
  const table = new MeteredTable(await openTableDatabase(directory), space);
  const server = createServer((request, response) => {
    answer(table, verify, request).then(
      (output) => send(response, 200, output),
      (error: unknown) => {
        const { statusCode, body } = asApiError(error);
        send(response, statusCode, body);
      },
    );
  });
  server.keepAliveTimeout = 60_000;
  return {
    server,
    call: (operation, input) =>
      table.call(operation, JSON.stringify(input)).catch((error: unknown) => {
        throw asSdkError(asApiError(error));
      }),
    writes: () => table.writes,
    close: () => table.close(),
  };
}

/** The database. A write must find space on the disk, and is counted. */
class MeteredTable {
  readonly #database: TableDatabase;
  readonly #space: DiskSpace;
  writes: StoreWrites = { requests: 0, bytes: 0, units: 0 };

  constructor(database: TableDatabase, space: DiskSpace) {
    this.#database = database;
    this.#space = space;
  }

  async call(operation: string, json: string): Promise<JsonBody> {
    const input = parseInput(json);
    const fault = expressionFault(input);
    if (fault !== undefined) throw apiError(400, "com.amazon.coral.validate#ValidationException", fault);
    if (!WRITE_OPERATIONS.has(operation)) return this.#database.call(operation, input);
    const bytes = Buffer.byteLength(json);
    const reservation = await this.#space.reserve(bytes);
    try {
      const { ReturnConsumedCapacity: asked = "NONE" } = input;
      const counted = asked === "NONE" ? { ...input, ReturnConsumedCapacity: "TOTAL" } : input;
      const { ConsumedCapacity: capacity, ...output } = await this.#database.call(operation, counted);
      this.#count(bytes, unitsOf(capacity));
      return asked === "NONE" ? output : { ...output, ConsumedCapacity: capacity };
    } catch (error) {
      this.#count(bytes, 1);
      throw error;
    } finally {
      reservation.end();
    }
  }

  close(): Promise<void> {
    return this.#database.close();
  }

  #count(bytes: number, units: number): void {
    const { writes } = this;
    this.writes = { requests: writes.requests + 1, bytes: writes.bytes + bytes, units: writes.units + units };
  }
}

function parseInput(json: string): JsonBody {
  const input = jsonOrUndefined(json);
  if (typeof input !== "object" || input === null)
    throw apiError(400, "com.amazon.coral.service#SerializationException");
  return input as JsonBody;
}

/** The write units of one table, or of all tables of a batch. */
function unitsOf(capacity: unknown): number {
  const tables = [capacity].flat() as { readonly CapacityUnits?: number }[];
  return tables.reduce((sum, table) => sum + (table?.CapacityUnits ?? 1), 0);
}

async function answer(table: MeteredTable, verify: VerifyRequest, request: IncomingMessage): Promise<JsonBody> {
  const body = await readBody(request);
  const { method = "", url = "", headers } = request;
  await verify({ method, url, headers, body });
  const [, operation = ""] = /^DynamoDB_20120810\.(\w+)$/.exec(String(headers["x-amz-target"])) ?? [];
  return table.call(operation, body.toString());
}

/** Reads even an oversized body to its end before refusing it, so that the caller receives the response. */
async function readBody(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    size += piece.length;
    if (size <= MAX_BODY_BYTES) pieces.push(piece);
  }
  if (size > MAX_BODY_BYTES) {
    const fault = `a request may have at most ${MAX_BODY_BYTES} bytes: this one has ${size}`;
    throw apiError(413, "com.amazon.coral.service#RequestEntityTooLargeException", fault);
  }
  return Buffer.concat(pieces);
}

function send(response: ServerResponse, status: number, output: object): void {
  const body = JSON.stringify(output);
  response.writeHead(status, {
    "content-type": "application/x-amz-json-1.0",
    "content-length": Buffer.byteLength(body),
    "x-amzn-requestid": randomUUID(),
  });
  response.end(body);
}

function asApiError(error: unknown): DynamoApiError {
  if (isApiError(error)) return error;
  if (error instanceof AuthenticationError) return apiError(400, NAMESPACE + FAULT_NAMES[error.reason], error.message);
  const { status, code, message } = asS3Error(error);
  return apiError(status, NAMESPACE + code, message);
}

function asSdkError({ statusCode, body }: DynamoApiError): Error {
  const error = new Error(body.message ?? body.Message);
  return Object.assign(error, { name: body.__type.split("#").at(-1), $metadata: { httpStatusCode: statusCode } });
}
