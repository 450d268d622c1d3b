/**
 * @file The SDK clients: kept-alive connections, bounded retries, endpoints and credentials from the standard AWS variables, and an
 * observer on the wire that sees every attempt.
 */
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { S3Client } from "@aws-sdk/client-s3";
import { getSchemaSerdePlugin } from "@smithy/core/schema";

/** The first try and three more, 50 ms to some hundreds apart: about a second until an outage is an error. */
const ATTEMPTS = 4;
/** To each of the two services; what comes beyond waits for one. */
export const CONNECTIONS = 64;

/** Sees what goes over the wire: each attempt, also those that fail. */
export interface WireObserver {
  /** A request leaves. */
  sent(command: string, endpoint: string, bodyBytes: number): void;
  /** An answer came; the Date header of the store. */
  answered(date: string | undefined): void;
}

export interface AwsClients {
  readonly dynamo: DynamoDBClient;
  readonly s3: S3Client;
  close(): void;
}

/** The SDK's advice to move to a newer Node.js would come once per process, into the run's live line; the versions are pinned. */
export function silenceNodeVersionWarning(): void {
  process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";
}

/** The region is AWS_REGION, or the profile's; endpoints that are not AWS's own have only a name for one. */
export function openClients(observer: { dynamo: WireObserver; s3: WireObserver }): AwsClients {
  silenceNodeVersionWarning();
  const { AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL_S3, AWS_REGION } = process.env;
  const isElsewhere = Boolean(AWS_ENDPOINT_URL || AWS_ENDPOINT_URL_DYNAMODB || AWS_ENDPOINT_URL_S3);
  const options = () => ({
    ...(!AWS_REGION && isElsewhere && { region: "us-east-1" }),
    maxAttempts: ATTEMPTS,
    // One stack of middleware per kind of command, not put together anew for every call.
    cacheMiddleware: true,
    requestHandler: {
      connectionTimeout: 3_000,
      requestTimeout: 60_000,
      httpAgent: { keepAlive: true, maxSockets: CONNECTIONS },
      httpsAgent: { keepAlive: true, maxSockets: CONNECTIONS },
    },
  });
  const dynamo = new DynamoDBClient(options());
  // The bucket as a part of the host's name is for AWS's own DNS: other endpoints are asked with it in the path.
  const forcePathStyle = Boolean(AWS_ENDPOINT_URL_S3 || AWS_ENDPOINT_URL);
  // Signatures cover the SHA-256 of every body already: a CRC on top would only cost time.
  const s3 = new S3Client({
    ...options(),
    forcePathStyle,
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
  });
  streamline(dynamo);
  streamline(s3);
  observe(dynamo, observer.dynamo);
  observe(s3, observer.s3);
  return {
    dynamo,
    s3,
    close() {
      dynamo.destroy();
      s3.destroy();
    },
  };
}

/**
 * Halves what a call costs besides the wire. Four times a call the SDK spreads its config, which V8 does a hundred times slower because
 * one property of it, `credentials`, is an accessor; it makes a signer anew; and it walks every input and output for a logger that is
 * not there.
 */
function streamline(client: DynamoDBClient | S3Client) {
  const { config } = client;
  const signerFor = config.signer;
  const signers = new Map<string, ReturnType<typeof signerFor>>();
  config.signer = (scheme) => {
    const key = JSON.stringify(scheme ?? null);
    const known = signers.get(key) ?? signerFor(scheme);
    signers.set(key, known);
    return known;
  };
  const plain = { ...config };
  Object.assign(client, { config: plain });
  client.middlewareStack.use(getSchemaSerdePlugin(plain));
  client.middlewareStack.remove("loggerMiddleware");
}

interface Request {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
  readonly body?: unknown;
}

function observe(client: DynamoDBClient | S3Client, observer: WireObserver) {
  const stack: Pick<DynamoDBClient["middlewareStack"], "add"> =
    client.middlewareStack as DynamoDBClient["middlewareStack"];
  stack.add(
    (next, context) => async (args) => {
      const request = args.request as Request;
      const port = request.port === undefined ? "" : `:${request.port}`;
      const { body } = request;
      const bytes = typeof body === "string" || body instanceof Uint8Array ? Buffer.byteLength(body) : 0;
      observer.sent(String(context["commandName"]), `${request.protocol}//${request.hostname}${port}`, bytes);
      const result = await next(args);
      observer.answered((result.response as { headers?: Record<string, string> }).headers?.["date"]);
      return result;
    },
    { step: "deserialize", priority: "low", name: "observeWire" },
  );
}
