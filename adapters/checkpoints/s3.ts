/** @file CheckpointSource on an S3 prefix: `<prefix>/<checkpoint>/<file>`. */
import { GetObjectCommand, paginateListObjectsV2, type S3Client } from "@aws-sdk/client-s3";
import { type CheckpointSource, type FileState, LARGE_FILE_BYTES } from "../../core/checkpoint-source.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFile } from "../../core/ports.ts";
import { openClients } from "../aws/clients.ts";
import { translated } from "../aws/errors.ts";
import { type FileCache, openFileCache } from "./cache.ts";

export interface S3SourceOptions {
  readonly cache?: FileCache;
  readonly largeBytes?: number;
}

/** Endpoint, region and credentials come from the standard AWS variables. */
export function openS3Source(url: string, options: S3SourceOptions = {}): CheckpointSource {
  const { cache = openFileCache(), largeBytes = LARGE_FILE_BYTES } = options;
  const { s3, bucket, path, call } = connect(url);
  const prefix = path === "" || path.endsWith("/") ? path : `${path}/`;

  async function read(key: string): Promise<CheckpointFile> {
    const { Body, ContentLength = 0, ETag } = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
    if (!Body) return new Uint8Array();
    if (!key.endsWith(".safetensors") || ContentLength <= largeBytes) return Body.transformToByteArray();
    const origin = `s3://${bucket}/${key}`;
    const tag = `${origin} ${ETag} ${ContentLength}`;
    const known = await cache.findTag(tag);
    if (known) (Body as AsyncIterable<Uint8Array> & { destroy?: () => void }).destroy?.();
    const kept = known ?? (await cache.add(Body as unknown as AsyncIterable<Uint8Array>));
    await cache.linkTag(tag, kept);
    return { path: kept.path, bytes: ContentLength, origin };
  }

  return {
    list: (only) =>
      call("looking at", async () => {
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
      call("reading from", async () => {
        const entries = files.map(async (file) => [file, await read(`${prefix}${name}/${file}`)] as const);
        return new Map(await Promise.all(entries));
      }),
  };
}

/** Streams one object. */
export function readS3Object<T>(url: string, use: (body: AsyncIterable<Uint8Array>) => Promise<T>): Promise<T> {
  const { s3, bucket, path, call } = connect(url);
  return call("reading", async () => {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: path }));
    return use(Body as unknown as AsyncIterable<Uint8Array>);
  });
}

function connect(url: string): {
  s3: S3Client;
  bucket: string;
  path: string;
  call: <T>(doing: string, work: () => Promise<T>) => Promise<T>;
} {
  const [, bucket = "", path = ""] = /^s3:\/\/([^/]+)\/?(.*)$/.exec(url) ?? [];
  if (bucket === "") throw new MgrpoError("config-invalid", `${url}: write s3://bucket/prefix`);
  let endpoint = "S3";
  const ignore = { sent() {}, answered() {} };
  const sent = (_command: string, to: string) => {
    endpoint = to;
  };
  const { s3 } = openClients({ dynamo: ignore, s3: { ...ignore, sent } });
  return { s3, bucket, path, call: (doing, work) => translated(`${doing} ${url}`, () => endpoint, work) };
}
