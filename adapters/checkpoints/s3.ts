/** @file CheckpointSource on an S3 prefix: `<prefix>/<checkpoint>/<file>`. */
import { stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import { GetObjectCommand, paginateListObjectsV2, type S3Client } from "@aws-sdk/client-s3";
import { type CheckpointSource, type FileState, LARGE_FILE_BYTES } from "../../core/checkpoint-source.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFile } from "../../core/ports.ts";
import { openClients } from "../aws/clients.ts";
import { translated } from "../aws/errors.ts";
import { type FileCache, openFileCache } from "./cache.ts";

export interface S3SourceOptions {
  /** Where large files are kept on this machine. Absent: the file cache of this machine, in `$MGRPO_CACHE` (cache.ts). */
  readonly cache?: FileCache;
  /** Safetensors files above this size are read through the cache. Absent: `LARGE_FILE_BYTES`. */
  readonly largeBytes?: number;
}

/** Opens `s3://<bucket>/<prefix>`. Endpoint, region and credentials are what AWS's SDKs find for this process. */
export function openS3Source(url: string, options: S3SourceOptions = {}): CheckpointSource {
  const { cache = openFileCache(), largeBytes = LARGE_FILE_BYTES } = options;
  const { bucket, path } = parseUrl(url);
  const prefix = path === "" || path.endsWith("/") ? path : `${path}/`;

  async function read(s3: S3Client, key: string): Promise<CheckpointFile> {
    const { body, bytes, etag, toBytes } = await getObject(s3, bucket, key);
    if (!key.endsWith(".safetensors") || bytes <= largeBytes) return toBytes();
    const origin = `s3://${bucket}/${key}`;
    const tag = `${origin} ${etag} ${bytes}`;
    const known = await cache.findTag(tag);
    // A power failure can leave a shorter copy.
    if (known && (await stat(known.path)).size === bytes) {
      body.destroy();
      return { path: known.path, bytes, origin };
    }
    const added = await cache.add(body);
    await cache.linkTag(tag, added);
    return { path: added.path, bytes, origin };
  }

  return {
    list: (only) =>
      withS3(`listing ${url}`, async (s3) => {
        const found = new Map<string, Map<string, FileState>>();
        for await (const { Contents = [] } of paginateListObjectsV2(
          { client: s3 },
          { Bucket: bucket, Prefix: only === undefined ? prefix : `${prefix}${only}/` },
        )) {
          for (const { Key = "", Size: bytes = 0, ETag: stamp = "" } of Contents) {
            const [name = "", file = "", ...deeper] = Key.slice(prefix.length).split("/");
            if (name === "" || file === "" || deeper.length > 0) continue;
            found.set(name, (found.get(name) ?? new Map<string, FileState>()).set(file, { bytes, stamp }));
          }
        }
        return found;
      }),
    read: (name, files) =>
      withS3(`reading from ${url}`, async (s3) => {
        const entries = files.map(async (file) => [file, await read(s3, `${prefix}${name}/${file}`)] as const);
        return new Map(await Promise.all(entries));
      }),
  };
}

/** Passes the body of one object to `use` as a stream. */
export async function readS3Object<T>(url: string, use: (body: AsyncIterable<Uint8Array>) => Promise<T>): Promise<T> {
  const { bucket, path } = parseUrl(url);
  if (path === "") throw new MgrpoError("config-invalid", `${url} names no object: write s3://<bucket>/<key>`);
  return withS3(`reading ${url}`, async (s3) => use((await getObject(s3, bucket, path)).body));
}

function parseUrl(url: string): { bucket: string; path: string } {
  const [, bucket = "", path = ""] = /^s3:\/\/([^/]+)\/?(.*)$/.exec(url) ?? [];
  if (bucket === "") throw new MgrpoError("config-invalid", `${url} names no bucket: write s3://<bucket>/<prefix>`);
  return { bucket, path };
}

async function getObject(s3: S3Client, bucket: string, key: string) {
  const { Body, ContentLength: bytes, ETag: etag } = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
  if (!Body || bytes === undefined) {
    const message = `reading s3://${bucket}/${key}: the store's response has no body or no length`;
    throw new MgrpoError("store-unreachable", message, { retryable: true });
  }
  return { body: Body as Readable, bytes, etag, toBytes: () => Body.transformToByteArray() };
}

/** Runs `work` with a client, and closes it afterward. `operation` names the work in errors. */
async function withS3<T>(operation: string, work: (s3: S3Client) => Promise<T>): Promise<T> {
  let endpoint = "S3";
  const ignore = { sent() {}, answered() {} };
  const sent = (to: string) => {
    endpoint = to;
  };
  const clients = openClients({ dynamo: ignore, s3: { ...ignore, sent } });
  const attempt = () =>
    work(clients.s3).catch((cause: Error) => {
      if (!/^(NoSuchBucket|InvalidBucketName)$/.test(cause.name)) throw cause;
      // `translated` would name the remedy for a run's own bucket (MGRPO_BUCKET); this one comes from the model's URL.
      const message = `${operation}: the store at ${endpoint} has no such bucket: check the URL and AWS_REGION`;
      throw new MgrpoError("not-found", message, { cause });
    });
  return translated(operation, () => endpoint, attempt).finally(() => clients.close());
}
