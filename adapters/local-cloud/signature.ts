/**
 * @file Verifies AWS signatures, version 4, in the Authorization header: the received request is signed again with the key that only
 * this cloud and its callers know, by the library that the SDK itself signs with, and the two signatures are compared.
 *
 *     Authorization: AWS4-HMAC-SHA256 Credential=<key id>/<day>/<region>/<service>/aws4_request, SignedHeaders=a;b, Signature=<hex>
 *
 * What the signature covers, nobody on the way can change: method, path, query, the signed headers, the hash of the body. So a body
 * whose hash is not in the signature (UNSIGNED-PAYLOAD, STREAMING-...) is refused: this is for plain HTTP, where the signature is
 * all the protection there is. URLs signed in advance are refused too; nothing here makes any.
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { SignatureV4 } from "@smithy/signature-v4";
import type { Credentials } from "./credentials.ts";

/** As AWS has it. The SDK learns its offset from the Date header of the refusal, and tries again. */
const LARGEST_SKEW_MINUTES = 15;

export type Service = "s3" | "dynamodb";

export interface ReceivedRequest {
  readonly method: string;
  /** Path and query as they came, still encoded. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** Absent where the body is checked against x-amz-content-sha256 as it streams by (S3). */
  readonly body?: Uint8Array;
}

/** Why a request is not believed. Each API has its own names for these. */
export type AuthenticationFault =
  /** No signature in the Authorization header. */
  | "unsigned"
  /** One that cannot be read, or that leaves out what it must cover. */
  | "malformed"
  /** Made with the key of another cloud. */
  | "another-key"
  | "another-region"
  /** The caller's clock is off, or this is an old request once more. */
  | "skewed"
  /** The hash of the body is not covered. */
  | "body-unsigned"
  /** Another secret, or something was changed on the way. */
  | "mismatch";

export class AuthenticationError extends Error {
  readonly reason: AuthenticationFault;

  constructor(why: AuthenticationFault, message: string) {
    super(message);
    this.reason = why;
  }
}

/** Resolves when the signature is the caller's own; rejects with Untrusted. */
export type VerifySignature = (request: ReceivedRequest) => Promise<void>;

export interface VerifierOptions {
  readonly credentials: Credentials;
  readonly region: string;
  readonly service: Service;
  /** Milliseconds; for tests. */
  readonly now?: () => number;
}

const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/,\s]+)\/(\d{8})\/([^/,\s]+)\/([^/,\s]+)\/aws4_request, ?SignedHeaders=([a-z0-9;_-]+), ?Signature=([0-9a-f]{64})$/;
const SHA256 = /^[0-9a-f]{64}$/;

export function openSignatureVerifier(options: VerifierOptions): VerifySignature {
  const { credentials, region, service, now = Date.now } = options;
  const signer = new SignatureV4({
    credentials,
    region,
    service,
    sha256: Sha256,
    applyChecksum: false,
    // S3 signs the path as it is sent; everything else encodes it once more and takes out its dots.
    uriEscapePath: service !== "s3",
  });

  return async ({ method, url, headers, body }) => {
    const given = readAuthorization(headers.authorization);
    if (given.keyId !== credentials.accessKeyId) throw new AuthenticationError("another-key", "this is another cloud's key");
    if (given.region !== region)
      throw new AuthenticationError("another-region", `the region '${given.region}' is wrong; expecting '${region}'`);
    if (given.service !== service)
      throw new AuthenticationError("malformed", `signed for '${given.service}', this is ${service}`);
    const signingDate = readDate(headers["x-amz-date"], given.day, now());
    const covered = new Set(given.signedHeaders);
    requireCovered(headers, covered);
    const bodySha256 = body && createHash("sha256").update(body).digest("hex");
    requireBody(headers["x-amz-content-sha256"], service, bodySha256);
    const [path = "", search = ""] = url.split(/\?(.*)/s);
    const received = {
      method,
      protocol: "http:",
      hostname: "",
      path,
      query: readQuery(search),
      headers: Object.fromEntries([...covered].map((name) => [name, textOf(headers[name])])),
      // Hashed where no header says the hash: only S3 wants that header.
      body,
    };
    const signed = await signer.sign(received, { signingDate, signableHeaders: covered });
    const expected = /Signature=([0-9a-f]{64})$/.exec(signed.headers["authorization"] ?? "")?.[1] ?? "";
    if (!timingSafeEqual(Buffer.from(expected), Buffer.from(given.signature)))
      throw new AuthenticationError(
        "mismatch",
        "the request's signature is not the one that this cloud's secret key gives: check AWS_SECRET_ACCESS_KEY",
      );
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
  const match = AUTHORIZATION.exec(header);
  if (!match) throw new AuthenticationError("malformed", "the Authorization header is no AWS4-HMAC-SHA256 signature");
  const [, keyId, day, region, service, names, signature] = match as unknown as string[];
  return {
    keyId: keyId ?? "",
    day: day ?? "",
    region: region ?? "",
    service: service ?? "",
    signedHeaders: (names ?? "").split(";"),
    signature: signature ?? "",
  };
}

function readDate(header: string | string[] | undefined, day: string, now: number): Date {
  const text = textOf(header);
  const match = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(text);
  const [, year, month, date, hours, minutes, seconds] = match ?? [];
  const time = Date.parse(`${year}-${month}-${date}T${hours}:${minutes}:${seconds}Z`);
  if (!match || Number.isNaN(time) || !text.startsWith(day))
    throw new AuthenticationError("malformed", `x-amz-date '${text}' is no date, or not that of the signature`);
  if (Math.abs(now - time) > LARGEST_SKEW_MINUTES * 60_000)
    throw new AuthenticationError(
      "skewed",
      `Signature expired: ${text} is more than ${LARGEST_SKEW_MINUTES} minutes from ${new Date(now).toISOString()}`,
    );
  return new Date(time);
}

/** Host, date, and every x-amz-* header that came. */
function requireCovered(headers: IncomingHttpHeaders, covered: ReadonlySet<string>): void {
  const must = ["host", "x-amz-date", ...Object.keys(headers).filter((name) => name.startsWith("x-amz-"))];
  const missing = must.find((name) => !covered.has(name));
  if (missing !== undefined) throw new AuthenticationError("malformed", `the header ${missing} is not signed`);
  const absent = [...covered].find((name) => headers[name] === undefined);
  if (absent !== undefined) throw new AuthenticationError("mismatch", `the signed header ${absent} did not come`);
}

function requireBody(header: string | string[] | undefined, service: Service, bodySha256: string | undefined): void {
  const promised = textOf(header);
  if (service === "s3" && !SHA256.test(promised))
    throw new AuthenticationError("body-unsigned", `x-amz-content-sha256 is '${promised}': send the SHA-256 of the body`);
  if (bodySha256 !== undefined && promised !== "" && promised !== bodySha256)
    throw new AuthenticationError("mismatch", "the body is not the one that was signed");
}

/** Names and values decoded; not by URLSearchParams, to which a plus is a space. */
function readQuery(search: string): Record<string, string[]> {
  const query: Record<string, string[]> = Object.create(null);
  for (const pair of search.split("&").filter(Boolean)) {
    const [name = "", value = ""] = pair.split(/=(.*)/s).map(decoded);
    query[name] = [...(query[name] ?? []), value];
  }
  return query;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new AuthenticationError("malformed", `'${text}' in the query is not encoded`);
  }
}

const textOf = (header: string | string[] | undefined) => (Array.isArray(header) ? header.join(",") : (header ?? ""));

type Sha256Constructor = ConstructorParameters<typeof SignatureV4>[0]["sha256"];
type Source = Parameters<InstanceType<Sha256Constructor>["update"]>[0];

/** SHA-256, or its HMAC, as the library wants them. */
class Sha256 {
  readonly #state;

  constructor(secret?: Source) {
    this.#state = secret === undefined ? createHash("sha256") : createHmac("sha256", bytesOf(secret));
  }

  update(data: Source): void {
    this.#state.update(bytesOf(data));
  }

  async digest(): Promise<Uint8Array> {
    return this.#state.digest();
  }

  reset(): void {
    throw new Error("a digest is taken once");
  }
}

function bytesOf(data: Source): Uint8Array | string {
  if (typeof data === "string" || data instanceof Uint8Array) return data;
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return new Uint8Array(data);
}
