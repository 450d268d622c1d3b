/**
 * @file ObjectStore on S3. A commit is a PUT with `If-None-Match: *`; when something is there already, it is compared: the same
 * bytes are ours, written by an earlier try whose answer was lost or by somebody who did the same work.
 */
import { createHash } from "node:crypto";
import {
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
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

/** From `fromBytes` on in parts, so that a broken connection costs one part; a part is also what is held in memory when comparing. */
export interface PartSizes {
  readonly fromBytes: number;
  readonly bytes: number;
}
const PARTS: PartSizes = { fromBytes: 64 * 2 ** 20, bytes: 16 * 2 ** 20 };
const DELETE_BATCH = 1000;
/** A commit that meets another one in flight, or a download that breaks off, is tried again. */
const RETRIES = { retries: 5, minTimeout: 50, factor: 2, randomize: true };

export interface ObjectStoreOptions {
  readonly s3: S3Client;
  readonly bucket: string;
  readonly endpoint: () => string;
  readonly parts?: PartSizes | undefined;
}

export function openObjectStore({ s3, bucket, endpoint, parts = PARTS }: ObjectStoreOptions): ObjectStore {
  const call = <T>(doing: string, work: () => Promise<T>) => translated(doing, endpoint, work);
  const hashes = new WeakMap<Uint8Array, string>();
  s3.middlewareStack.add(
    (next) => (args) => {
      const { Body } = args.input as { Body?: unknown };
      const known = Body instanceof Uint8Array ? hashes.get(Body) : undefined;
      // The signer takes it from there. A wrong one is refused by the store.
      if (known) (args.request as { headers: Record<string, string> }).headers["x-amz-content-sha256"] = known;
      return next(args);
    },
    { step: "build", name: "knownSha256" },
  );

  async function head(key: string) {
    try {
      return await s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key }));
    } catch (error) {
      if (errorName(error) === "NotFound") return undefined;
      // A refusal of HEAD has no body that would say why: that of GET has.
      if (isNameless(error)) await read(key, "bytes=0-0");
      throw error;
    }
  }

  async function read(key: string, range?: string): Promise<Uint8Array | undefined> {
    try {
      const found = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: key, Range: range }));
      return await found.Body?.transformToByteArray();
    } catch (error) {
      if (errorName(error) === "NoSuchKey") return undefined;
      throw error;
    }
  }

  async function put(key: string, body: Uint8Array): Promise<"written" | "occupied" | "conflict"> {
    const params = { Bucket: bucket, Key: key, Body: body, IfNoneMatch: "*", ...tagged(key) };
    try {
      // Nobody uploads weights only to hear that they are there.
      if (body.length >= parts.fromBytes && (await head(key))) return "occupied";
      if (body.length < parts.fromBytes) await s3.send(new PutObjectCommand(params));
      else await new Upload({ client: s3, params, partSize: parts.bytes, queueSize: 2 }).done();
      return "written";
    } catch (error) {
      if (errorName(error) === "PreconditionFailed") return "occupied";
      if (errorName(error) === "ConditionalRequestConflict") return "conflict";
      // Of an upload in parts: put together by an earlier try whose answer was lost, or dropped.
      if (errorName(error) === "NoSuchUpload") return (await head(key)) ? "occupied" : "conflict";
      throw error;
    }
  }

  /** Undefined: it was deleted meanwhile. */
  async function holds(key: string, body: Uint8Array): Promise<boolean | undefined> {
    const there = await head(key);
    if (!there) return undefined;
    if (there.ContentLength !== body.length) return false;
    const inParts = there.ETag?.includes("-");
    if (!inParts && there.ETag === `"${createHash("md5").update(body).digest("hex")}"`) return true;
    for (let from = 0; from < body.length; from += parts.bytes) {
      const to = Math.min(from + parts.bytes, body.length);
      const part = await read(key, `bytes=${from}-${to - 1}`);
      if (!part) return undefined;
      if (Buffer.compare(part, body.subarray(from, to)) !== 0) return false;
    }
    return true;
  }

  return {
    commit(key, body, sha256) {
      if (sha256 !== undefined) hashes.set(body, sha256);
      return pRetry(
        () =>
          call(`commit ${key}`, async () => {
            const outcome = await put(key, body);
            const ours = outcome === "occupied" ? await holds(key, body) : outcome === "written" || undefined;
            if (ours === undefined) throw contended(key);
            return ours;
          }),
        { ...RETRIES, shouldRetry: ({ error }) => isMgrpoError(error) && error.evidence === CONTENDED },
      );
    },

    get: (key) =>
      pRetry(() => call(`read ${key}`, () => read(key)), {
        ...RETRIES,
        shouldRetry: ({ error }) => isMgrpoError(error) && brokeOff(error),
      }),

    head: (key) => call(`look for ${key}`, async () => (await head(key))?.ContentLength),

    delete: (keys) =>
      call(`delete ${keys.length} objects`, async () => {
        for (let from = 0; from < keys.length; from += DELETE_BATCH) {
          const Objects = keys.slice(from, from + DELETE_BATCH).map((Key) => ({ Key }));
          const { Errors } = await s3.send(
            new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects, Quiet: true } }),
          );
          const [first] = Errors ?? [];
          if (first) throw Object.assign(new Error(`${first.Key}: ${first.Message}`), { name: first.Code });
        }
      }),
  };
}

/** Read by the bucket's lifecycle (stacks/storage.ts): by its tag alone can it tell what may be forgotten. */
const tagged = (key: string) => isConversationKey(key) && { Tagging: "mgrpo=conversation" };

const isNameless = (error: unknown) =>
  errorName(error) === "Unknown" && ((error as S3ServiceException).$metadata.httpStatusCode ?? 500) < 500;

const errorName = (error: unknown) => (error as Error).name;

const CONTENDED = "another write of this key was in flight";

const contended = (key: string) =>
  new MgrpoError("store-unreachable", `commit ${key}: ${CONTENDED} at every try`, {
    retryable: true,
    evidence: CONTENDED,
  });

/** After the SDK's own retries are over, with an answer begun: it does not repeat those. */
const brokeOff = (error: MgrpoError) =>
  /^(ECONNRESET|ERR_STREAM_PREMATURE_CLOSE)$/.test(String((error.cause as { code?: string } | undefined)?.code));
