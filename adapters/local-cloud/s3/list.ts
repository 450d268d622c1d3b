/** @file ListObjectsV2: one page of a bucket's keys, in byte order. */
import { S3Error } from "./errors.ts";
import type { ObjectMetadata } from "./object-metadata.ts";
import { toXml } from "./xml.ts";

const MAX_PAGE_KEYS = 1000;

/** The order of keys in S3: by their UTF-8 bytes. */
export const byteOrder = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** @param all the bucket's objects, in the byte order of their keys. */
export function listPage(bucket: string, all: readonly ObjectMetadata[], query: URLSearchParams): string {
  const prefix = query.get("prefix") ?? "";
  const delimiter = query.get("delimiter") ?? "";
  const pageSize = pageSizeOf(query);
  const token = query.get("continuation-token");
  const after = token === null ? (query.get("start-after") ?? "") : Buffer.from(token, "base64url").toString();

  const contents: ObjectMetadata[] = [];
  const commonPrefixes = new Set<string>();
  let last = "";
  let truncated = false;
  for (const object of all) {
    if (!object.key.startsWith(prefix)) continue;
    const cut = delimiter === "" ? -1 : object.key.indexOf(delimiter, prefix.length);
    const entry = cut < 0 ? object.key : object.key.slice(0, cut + delimiter.length);
    // A common prefix is listed once; all its keys are then skipped.
    if (commonPrefixes.has(entry) || byteOrder(entry, after) <= 0) continue;
    if (contents.length + commonPrefixes.size >= pageSize) {
      truncated = true;
      break;
    }
    if (cut < 0) contents.push(object);
    else commonPrefixes.add(entry);
    last = entry;
  }

  const encoded = query.get("encoding-type") === "url";
  const encode = encoded ? encodeURIComponent : (text: string) => text;
  return toXml("ListBucketResult", {
    Name: bucket,
    Prefix: encode(prefix),
    ...(delimiter !== "" && { Delimiter: encode(delimiter) }),
    ...(encoded && { EncodingType: "url" }),
    MaxKeys: pageSize,
    KeyCount: contents.length + commonPrefixes.size,
    IsTruncated: truncated,
    ...(truncated && { NextContinuationToken: Buffer.from(last).toString("base64url") }),
    Contents: contents.map(({ key, modified, etag, size }) => ({
      Key: encode(key),
      LastModified: new Date(modified).toISOString(),
      ETag: `"${etag}"`,
      Size: size,
      StorageClass: "STANDARD",
    })),
    CommonPrefixes: [...commonPrefixes].map((common) => ({ Prefix: encode(common) })),
  });
}

/** Refuses 0. S3 itself returns an empty page for it, which no client needs. */
function pageSizeOf(query: URLSearchParams): number {
  const maxKeys = query.get("max-keys") ?? String(MAX_PAGE_KEYS);
  if (!/^[0-9]*[1-9][0-9]*$/.test(maxKeys)) throw new S3Error("InvalidArgument", `max-keys ${maxKeys}: use 1 or more`);
  return Math.min(MAX_PAGE_KEYS, Number(maxKeys));
}
