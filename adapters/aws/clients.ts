/**
 * @file The SDK clients: keep-alive connections, bounded retries, endpoints and keys from a store's own variables or from this process's
 * environment, and an observer that sees every attempt on the wire.
 */
import { IncomingMessage } from "node:http";
import { finished } from "node:stream";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { S3Client } from "@aws-sdk/client-s3";
import { loadConfig, NODE_REGION_CONFIG_FILE_OPTIONS, NODE_REGION_CONFIG_OPTIONS } from "@smithy/core/config";
import { getSchemaSerdePlugin } from "@smithy/core/schema";
import pLimit from "p-limit";

/**
 * One attempt and at most three retries, after random pauses of at most 200 ms, or of seconds if the store throttles. Refused connections
 * become an error within a second, dropped packets after 12 seconds, and requests that get no answer after four times `idleSeconds`; sooner
 * if many requests fail, since the SDK then stops retrying.
 */
const ATTEMPTS = 4;
const CONNECT_SECONDS = 3;
/** Maximum number of connections to each of the two services. Further requests wait for a free one. */
export const CONNECTIONS = 64;
/** A request without a byte in either direction for this long has failed. */
export const IDLE_SECONDS = 30;

export interface ConnectionLimits {
  readonly connections: number;
  /** See `IDLE_SECONDS`. */
  readonly idleSeconds: number;
}
const LIMITS: ConnectionLimits = { connections: CONNECTIONS, idleSeconds: IDLE_SECONDS };

/** For custom endpoints: most of them ignore the region, but signatures need one. */
const CUSTOM_REGION = "us-east-1";

/** Sees every attempt on the wire, failed ones included. */
export interface WireObserver {
  /** A request is about to be sent. */
  sent(endpoint: string): void;
  /** A response arrived; `date` is its Date header. */
  answered(date: string | undefined): void;
}

export interface AwsClients {
  readonly dynamo: DynamoDBClient;
  readonly s3: S3Client;
  close(): void;
}

/** Silences the SDK's advice to upgrade Node.js, which would break up a run's progress line. The SDK's versions are pinned. */
export function silenceNodeVersionWarning(): void {
  process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";
}

/** The standard AWS variables of a store: endpoints, region and keys. */
export type StoreAccess = Readonly<Record<string, string | undefined>>;

/**
 * The region is AWS_REGION, or else the profile's. For a service with a custom endpoint, it defaults to us-east-1.
 * @param access the endpoints, region and keys of a store other than the one that this process's environment names. Its custom endpoints
 * ignore the profile.
 */
export function openClients(
  observer: { dynamo: WireObserver; s3: WireObserver },
  access?: StoreAccess,
  { connections, idleSeconds } = LIMITS,
): AwsClients {
  silenceNodeVersionWarning();
  const { AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL_S3, AWS_REGION } = access ?? process.env;
  const agent = { keepAlive: true, maxSockets: connections };
  const options = (endpoint: string | undefined) => ({
    ...(access ? ownAccess(access, endpoint) : environmentKeys(endpoint)),
    ...(!AWS_REGION && endpoint && { region: access ? CUSTOM_REGION : regionOfProfile() }),
    maxAttempts: ATTEMPTS,
    // Builds the middleware stack once per kind of command instead of once per call.
    cacheMiddleware: true,
    requestHandler: {
      connectionTimeout: CONNECT_SECONDS * 1000,
      socketTimeout: idleSeconds * 1000,
      httpAgent: agent,
      httpsAgent: agent,
    },
  });
  const dynamo = new DynamoDBClient(options(AWS_ENDPOINT_URL_DYNAMODB || AWS_ENDPOINT_URL));
  // Only AWS's DNS resolves host names that contain the bucket. Other endpoints take it in the path.
  const forcePathStyle = Boolean(AWS_ENDPOINT_URL_S3 || AWS_ENDPOINT_URL);
  // Signatures already cover the SHA-256 of every body: a CRC would only cost time.
  const s3 = new S3Client({
    ...options(AWS_ENDPOINT_URL_S3 || AWS_ENDPOINT_URL),
    forcePathStyle,
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
  });
  for (const client of [dynamo, s3]) {
    streamline(client);
    awaitConnection(client, connections);
  }
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

/** Without AWS_REGION: the region of AWS_PROFILE, or of the default profile, or `CUSTOM_REGION`. */
const regionOfProfile = () =>
  loadConfig({ ...NODE_REGION_CONFIG_OPTIONS, default: CUSTOM_REGION }, NODE_REGION_CONFIG_FILE_OPTIONS);

function ownAccess(access: StoreAccess, endpoint: string | undefined) {
  const {
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: accessKeyId = "",
    AWS_SECRET_ACCESS_KEY: secretAccessKey = "",
  } = access;
  return { ...(endpoint && { endpoint }), ...(region && { region }), credentials: { accessKeyId, secretAccessKey } };
}

/**
 * The keys of the environment, for a custom endpoint: they were set together with it. The SDK by itself would prefer AWS_PROFILE, which is
 * often set for an account at AWS.
 */
function environmentKeys(endpoint: string | undefined) {
  const {
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_SESSION_TOKEN: sessionToken,
  } = process.env;
  if (!endpoint || !accessKeyId || !secretAccessKey) return {};
  return { credentials: { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) } };
}

/**
 * Halves the CPU time of a call. Per call, the SDK spreads its config four times, which takes V8 a hundred times longer because
 * `credentials` is an accessor; it creates a new signer; and it walks every input and output for a logger that does not exist.
 */
function streamline(client: DynamoDBClient | S3Client) {
  const { config } = client;
  const signerFor = config.signer;
  const signers = new Map<string, ReturnType<typeof signerFor>>();
  config.signer = (scheme) => {
    const key = JSON.stringify(scheme ?? null);
    const signer = signers.get(key) ?? signerFor(scheme);
    signers.set(key, signer);
    return signer;
  };
  const plain = { ...config };
  Object.assign(client, { config: plain });
  client.middlewareStack.use(getSchemaSerdePlugin(plain));
  client.middlewareStack.remove("loggerMiddleware");
}

interface HttpRequest {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
}

type Stack = Pick<DynamoDBClient["middlewareStack"], "add">;

/**
 * The SDK would count the wait for a free connection as time to connect, so requests wait here, before they are sent. A request occupies its
 * connection until the body of its response has been read.
 */
function awaitConnection(client: DynamoDBClient | S3Client, connections: number) {
  const stack: Stack = client.middlewareStack as DynamoDBClient["middlewareStack"];
  const limit = pLimit(connections);
  /** Waits for a free connection. Resolves to a function that frees it. */
  const occupy = () =>
    new Promise<() => void>((occupied) => void limit(() => new Promise<void>((free) => occupied(free))));
  stack.add(
    (next) => async (args) => {
      const free = await occupy();
      try {
        const result = await next(args);
        onceRead(result.response, free);
        return result;
      } catch (error) {
        free();
        throw error;
      }
    },
    { step: "deserialize", priority: "low", name: "awaitConnection" },
  );
}

/** Calls `free` once the body of a response has been read, or its connection is lost. */
function onceRead(response: unknown, free: () => void): void {
  const { body } = response as { readonly body?: unknown };
  if (!(body instanceof IncomingMessage)) {
    free();
    return;
  }
  const { socket } = body;
  const end = () => {
    socket.off("close", end);
    free();
  };
  // A body that has arrived whole but is not read does not end when its connection closes.
  socket.once("close", end);
  finished(body, end);
}

function observe(client: DynamoDBClient | S3Client, observer: WireObserver) {
  const stack: Stack = client.middlewareStack as DynamoDBClient["middlewareStack"];
  stack.add(
    (next) => async (args) => {
      const request = args.request as HttpRequest;
      const port = request.port === undefined ? "" : `:${request.port}`;
      observer.sent(`${request.protocol}//${request.hostname}${port}`);
      const result = await next(args);
      observer.answered((result.response as { headers?: Record<string, string> }).headers?.["date"]);
      return result;
    },
    { step: "deserialize", priority: "low", name: "observeWire" },
  );
}
