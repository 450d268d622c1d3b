/**
 * @file Verifies AWS Signature Version 4 (SigV4) in the Authorization header. The received request is signed again with the key that only
 * this cloud and its callers know, by the library that the SDK signs with, and the two signatures are compared.
 *
 *     Authorization: AWS4-HMAC-SHA256 Credential=<key id>/<day>/<region>/<service>/aws4_request, SignedHeaders=a;b, Signature=<hex>
 *
 * The signature covers method, path, query, the signed headers and the hash of the body: a change to them in transit is detected. A body
 * whose hash is not covered (UNSIGNED-PAYLOAD, STREAMING-...) is refused, because over plain HTTP the signature is the only protection.
 * Presigned URLs are refused too; nothing here creates them.
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { SignatureV4 } from "@smithy/signature-v4";
import { AuthenticationError, type VerifyRequest } from "./authentication.ts";
import type { Credentials } from "./credentials.ts";

/** S3's own limit. The SDK learns its clock offset from the Date header of the refusal, and retries. */
const MAX_SKEW_MINUTES = 15;

export type Service = "s3" | "dynamodb";

export interface VerifierOptions {
  readonly credentials: Credentials;
  readonly region: string;
  readonly service: Service;
  /** Milliseconds since 1970; for tests. */
  readonly now?: () => number;
}

const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=(?<keyId>[^/,\s]+)\/(?<day>\d{8})\/(?<region>[^/,\s]+)\/(?<service>[^/,\s]+)\/aws4_request, ?SignedHeaders=(?<headers>[a-z0-9;_-]+), ?Signature=(?<signature>[0-9a-f]{64})$/;
const SHA256 = /^[0-9a-f]{64}$/;

export function openSignatureVerifier(options: VerifierOptions): VerifyRequest {
  const { credentials, region, service, now = Date.now } = options;
  const signer = new SignatureV4({
    credentials,
    region,
    service,
    sha256: Sha256Hash,
    applyChecksum: false,
    // For S3 the path is signed as it is sent. For other services it is encoded again and its dot segments are resolved.
    uriEscapePath: service !== "s3",
  });

  return async ({ method, url, headers, body }) => {
    const authorization = readAuthorization(headers.authorization);
    requireScope(authorization, options);
    const signingDate = readDate(headers["x-amz-date"], authorization.day, now());
    const covered = new Set(authorization.signedHeaders);
    requireCovered(headers, covered);
    const bodySha256 = body && createHash("sha256").update(body).digest("hex");
    requireHash(headers["x-amz-content-sha256"], service, bodySha256);
    const [path = "", search = ""] = url.split(/\?(.*)/s);
    const request = {
      method,
      protocol: "http:",
      hostname: "",
      path,
      query: readQuery(search),
      headers: Object.fromEntries([...covered].map((name) => [name, textOf(headers[name])])),
      // The library hashes the body unless a header carries its hash.
      body,
    };
    const signed = await signer.sign(request, { signingDate, signableHeaders: covered });
    requireSameSignature(authorization.signature, signed.headers["authorization"]);
  };
}

interface Authorization {
  readonly keyId: string;
  readonly day: string;
  readonly region: string;
  readonly service: string;
  readonly signedHeaders: readonly string[];
  readonly signature: string;
}

function readAuthorization(header: string | undefined): Authorization {
  if (header === undefined) throw new AuthenticationError("unsigned", "the request has no Authorization header");
  const { groups } = AUTHORIZATION.exec(header) ?? {};
  if (!groups)
    throw new AuthenticationError("malformed", "the Authorization header is not an AWS4-HMAC-SHA256 signature");
  const { keyId = "", day = "", region = "", service = "", headers = "", signature = "" } = groups;
  return { keyId, day, region, service, signedHeaders: headers.split(";"), signature };
}

function requireScope(given: Authorization, { credentials, region, service }: VerifierOptions): void {
  if (given.keyId !== credentials.accessKeyId)
    throw new AuthenticationError("another-key", "the access key ID is not this cloud's");
  if (given.region !== region)
    throw new AuthenticationError("another-region", `the region '${given.region}' is wrong; expecting '${region}'`);
  if (given.service !== service)
    throw new AuthenticationError("malformed", `the signature is for service '${given.service}', not for ${service}`);
}

function requireSameSignature(given: string, authorization = ""): void {
  const [, expected = ""] = /Signature=([0-9a-f]{64})$/.exec(authorization) ?? [];
  if (timingSafeEqual(Buffer.from(expected), Buffer.from(given))) return;
  throw new AuthenticationError(
    "mismatch",
    "the request's signature is not the one that this cloud's secret key gives: check AWS_SECRET_ACCESS_KEY",
  );
}

function readDate(header: string | string[] | undefined, day: string, now: number): Date {
  const text = textOf(header);
  const match = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(text);
  const [, year, month, date, hours, minutes, seconds] = match ?? [];
  const time = Date.parse(`${year}-${month}-${date}T${hours}:${minutes}:${seconds}Z`);
  if (!match || Number.isNaN(time) || !text.startsWith(day))
    throw new AuthenticationError("malformed", `x-amz-date '${text}' is not a date on the signature's day`);
  if (Math.abs(now - time) > MAX_SKEW_MINUTES * 60_000) {
    // AWS's words, which tell clients that their clock is wrong.
    const [fault, side] = time < now ? ["Signature expired", "before"] : ["Signature not yet current", "after"];
    throw new AuthenticationError(
      "skewed",
      `${fault}: ${text} is more than ${MAX_SKEW_MINUTES} minutes ${side} ${new Date(now).toISOString()}`,
    );
  }
  return new Date(time);
}

/** The signature must cover host, x-amz-date, and every other x-amz-* header received. Every header that it covers must be present. */
function requireCovered(headers: IncomingHttpHeaders, covered: ReadonlySet<string>): void {
  const required = ["host", "x-amz-date", ...Object.keys(headers).filter((name) => name.startsWith("x-amz-"))];
  const missing = required.find((name) => !covered.has(name));
  if (missing !== undefined) throw new AuthenticationError("malformed", `the header ${missing} is not signed`);
  const absent = [...covered].find((name) => !Object.hasOwn(headers, name));
  if (absent !== undefined) throw new AuthenticationError("mismatch", `the signed header ${absent} is missing`);
}

function requireHash(header: string | string[] | undefined, service: Service, bodySha256: string | undefined): void {
  // Only S3 requires the header. Without it, the signature covers the hash of the received body.
  if (header === undefined && service !== "s3") return;
  const declared = textOf(header);
  if (!SHA256.test(declared))
    throw new AuthenticationError(
      "body-unsigned",
      `x-amz-content-sha256 is '${declared}': send the SHA-256 of the body`,
    );
  if (bodySha256 !== undefined && declared !== bodySha256)
    throw new AuthenticationError("mismatch", "the body is not the one that was signed");
}

/** Decodes names and values as the S3 server does (a plus is a space), so that the signature covers the query that the server acts on. */
function readQuery(search: string): Record<string, string[]> {
  const query: Record<string, string[]> = Object.create(null);
  for (const [name, value] of new URLSearchParams(search)) query[name] = [...(query[name] ?? []), value];
  return query;
}

const textOf = (header: string | string[] | undefined) => (Array.isArray(header) ? header.join(",") : (header ?? ""));

type Sha256Constructor = ConstructorParameters<typeof SignatureV4>[0]["sha256"];
type HashInput = Parameters<InstanceType<Sha256Constructor>["update"]>[0];

/** SHA-256 or HMAC-SHA-256, in the interface that the library expects. */
class Sha256Hash {
  readonly #state;

  constructor(secret?: HashInput) {
    this.#state = secret === undefined ? createHash("sha256") : createHmac("sha256", hashInput(secret));
  }

  update(data: HashInput): void {
    this.#state.update(hashInput(data));
  }

  async digest(): Promise<Uint8Array> {
    return this.#state.digest();
  }

  reset(): void {
    throw new Error("a hash cannot be reset: construct another");
  }
}

function hashInput(data: HashInput): Uint8Array | string {
  if (typeof data === "string" || data instanceof Uint8Array) return data;
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return new Uint8Array(data);
}
