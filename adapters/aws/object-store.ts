/**
 * @file ObjectStore on S3. A commit is a PUT with `If-None-Match: *`. When the key is taken, the stored bytes are compared: equal bytes are
 * ours, from an earlier attempt whose response was lost or from a worker that did the same work.
 */
import { createHash } from "node:crypto";
import {
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  PutObjectCommand,
  type S3Client,
  type S3ServiceException,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import pRetry from "p-retry";
import { isConversationKey } from "../../core/contracts/keys.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { ObjectStore } from "../../core/ports.ts";
import { translated } from "./errors.ts";

/** Bodies of `fromBytes` or more are uploaded in parts, so that a lost connection costs one part. Comparisons read one part at a time. */
export interface PartSizes {
  readonly fromBytes: number;
  readonly bytes: number;
}
const PARTS: PartSizes = { fromBytes: 64 * 2 ** 20, bytes: 16 * 2 ** 20 };
const DELETE_BATCH = 1000;
/** For a commit that collides with another in flight, and for a download that is cut off. */
const RETRIES = { retries: 5, minTimeout: 50, factor: 2, randomize: true };
const CONTENDED = "another write of this key was in flight";

export interface ObjectStoreOptions {
  readonly s3: S3Client;
  readonly bucket: string;
  readonly endpoint: () => string;
  readonly parts?: PartSizes | undefined;
}

interface Bucket {
  readonly s3: S3Client;
  readonly name: string;
  readonly parts: PartSizes;
}

export function openObjectStore({ s3, bucket: name, endpoint, parts = PARTS }: ObjectStoreOptions): ObjectStore {
  const bucket: Bucket = { s3, name, parts };
  const hashes = passKnownHashes(s3);
  const call = <T>(operation: string, work: () => Promise<T>) => translated(operation, endpoint, work);
  return {
    commit(key, body, sha256) {
      if (sha256 !== undefined) hashes.set(body, sha256);
      return pRetry(() => call(`commit ${key}`, () => commit(bucket, key, body)), {
        ...RETRIES,
        shouldRetry: ({ error }) => isMgrpoError(error) && error.evidence === CONTENDED,
      });
    },
    get: (key) =>
      pRetry(() => call(`read ${key}`, () => read(bucket, key)), {
        ...RETRIES,
        shouldRetry: ({ error }) => isMgrpoError(error) && isCutOff(error),
      }),
    head: (key) => call(`look for ${key}`, async () => (await head(bucket, key))?.ContentLength),
    delete: (keys) => call(`delete ${keys.length} objects`, () => deleteAll(bucket, keys)),
  };
}

/** Gives the signer the hashes that callers already know: it would otherwise compute them again. The store refuses a wrong one. */
function passKnownHashes(s3: S3Client): WeakMap<Uint8Array, string> {
  const hashes = new WeakMap<Uint8Array, string>();
  s3.middlewareStack.add(
    (next) => (args) => {
      const { Body } = args.input as { Body?: unknown };
      const sha256 = Body instanceof Uint8Array ? hashes.get(Body) : undefined;
      const { headers } = args.request as { headers: Record<string, string> };
      if (sha256) headers["x-amz-content-sha256"] = sha256;
      return next(args);
    },
    { step: "build", name: "knownSha256" },
  );
  return hashes;
}

async function commit(bucket: Bucket, key: string, body: Uint8Array): Promise<boolean> {
  const outcome = await put(bucket, key, body);
  if (outcome === "written") return true;
  const isOurs = outcome === "occupied" ? await holds(bucket, key, body) : undefined;
  if (isOurs !== undefined) return isOurs;
  throw new MgrpoError("store-unreachable", `commit ${key}: ${CONTENDED} in every attempt`, {
    retryable: true,
    evidence: CONTENDED,
  });
}

async function put(bucket: Bucket, key: string, body: Uint8Array): Promise<"written" | "occupied" | "conflict"> {
  const { s3, name, parts } = bucket;
  const params = { Bucket: name, Key: key, Body: body, IfNoneMatch: "*", ...tagged(key) };
  try {
    // Check first, so as not to upload weights only to learn that they exist.
    if (body.length >= parts.fromBytes && (await head(bucket, key))) return "occupied";
    if (body.length < parts.fromBytes) await s3.send(new PutObjectCommand(params));
    else await new Upload({ client: s3, params, partSize: parts.bytes, queueSize: 2 }).done();
    return "written";
  } catch (error) {
    if (errorName(error) === "PreconditionFailed") return "occupied";
    if (errorName(error) === "ConditionalRequestConflict") return "conflict";
    // A multipart upload that is gone: completed by an earlier attempt whose response was lost, or aborted.
    if (errorName(error) === "NoSuchUpload") return (await head(bucket, key)) ? "occupied" : "conflict";
    throw error;
  }
}

/** Undefined: the object has since been deleted. */
async function holds(bucket: Bucket, key: string, body: Uint8Array): Promise<boolean | undefined> {
  const stored = await head(bucket, key);
  if (!stored) return undefined;
  if (stored.ContentLength !== body.length) return false;
  const isMultipart = stored.ETag?.includes("-");
  if (!isMultipart && stored.ETag === `"${createHash("md5").update(body).digest("hex")}"`) return true;
  return holdsRanges(bucket, key, body);
}

async function holdsRanges(bucket: Bucket, key: string, body: Uint8Array): Promise<boolean | undefined> {
  const { bytes } = bucket.parts;
  for (let from = 0; from < body.length; from += bytes) {
    const to = Math.min(from + bytes, body.length);
    const part = await read(bucket, key, `bytes=${from}-${to - 1}`);
    if (!part) return undefined;
    if (Buffer.compare(part, body.subarray(from, to)) !== 0) return false;
  }
  return true;
}

async function head(bucket: Bucket, key: string): Promise<HeadObjectCommandOutput | undefined> {
  try {
    return await bucket.s3.send(new HeadObjectCommand({ Bucket: bucket.name, Key: key }));
  } catch (error) {
    if (errorName(error) === "NotFound") return undefined;
    // A refused HEAD has no body to state the reason; a refused GET does.
    if (isNameless(error)) await read(bucket, key, "bytes=0-0");
    throw error;
  }
}

async function read({ s3, name }: Bucket, key: string, range?: string): Promise<Uint8Array | undefined> {
  try {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: name, Key: key, Range: range }));
    return await Body?.transformToByteArray();
  } catch (error) {
    if (errorName(error) === "NoSuchKey") return undefined;
    throw error;
  }
}

async function deleteAll({ s3, name }: Bucket, keys: readonly string[]): Promise<void> {
  for (let from = 0; from < keys.length; from += DELETE_BATCH) {
    const Objects = keys.slice(from, from + DELETE_BATCH).map((Key) => ({ Key }));
    const { Errors } = await s3.send(new DeleteObjectsCommand({ Bucket: name, Delete: { Objects, Quiet: true } }));
    const [first] = Errors ?? [];
    if (first) throw Object.assign(new Error(`${first.Key}: ${first.Message}`), { name: first.Code });
  }
}

/** A deployment's bucket expires objects by this tag (stacks/storage.ts). */
const tagged = (key: string) => isConversationKey(key) && { Tagging: "mgrpo=conversation" };

const isNameless = (error: unknown) =>
  errorName(error) === "Unknown" && ((error as S3ServiceException).$metadata.httpStatusCode ?? 500) < 500;

const errorName = (error: unknown) => (error as Error).name;

/** The connection was lost, or stalled, in the middle of the body, which the SDK does not retry. */
function isCutOff({ cause }: MgrpoError): boolean {
  const { code, name, $metadata } = (cause ?? {}) as { code?: string; name?: string; $metadata?: object };
  // With metadata, it is a request that the SDK has already retried.
  if ($metadata !== undefined) return false;
  return name === "TimeoutError" || /^(ECONNRESET|ERR_STREAM_PREMATURE_CLOSE)$/.test(String(code));
}
