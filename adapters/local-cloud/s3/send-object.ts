/** @file GET and HEAD of an object: conditions, ranges, checksums. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { S3Error } from "./errors.ts";
import type { ObjectFiles } from "./object-files.ts";
import type { ObjectMetadata } from "./object-metadata.ts";

export async function sendObject(
  objects: ObjectFiles,
  bucket: string,
  key: string,
  { method, headers }: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const object = await objects.open(bucket, key);
  if (!object) throw new S3Error("NoSuchKey", `there is no object ${key}`);
  const { metadata, file } = object;
  try {
    if (headers["if-match"] && !matches(headers["if-match"], metadata))
      throw new S3Error("PreconditionFailed", `the ETag of ${key} is "${metadata.etag}", not ${headers["if-match"]}`);
    if (headers["if-none-match"] && matches(headers["if-none-match"], metadata)) {
      response.writeHead(304, { etag: `"${metadata.etag}"` }).end();
      return;
    }
    const range = rangeOf(headers.range, metadata.size);
    const { from, to } = range ?? { from: 0, to: metadata.size };
    response.writeHead(range ? 206 : 200, {
      ...metadata.headers,
      etag: `"${metadata.etag}"`,
      "content-length": to - from,
      "last-modified": new Date(metadata.modified).toUTCString(),
      "accept-ranges": "bytes",
      ...(range && { "content-range": `bytes ${from}-${to - 1}/${metadata.size}` }),
      ...(!range && headers["x-amz-checksum-mode"] !== undefined && checksumHeaders(metadata.checksums)),
    });
    if (method === "HEAD" || to === from) response.end();
    else
      await pipeline(
        file.createReadStream({ start: from, end: to - 1, highWaterMark: 2 ** 19, autoClose: false }),
        response,
      );
  } finally {
    await file.close();
  }
}

const matches = (header: string, metadata: ObjectMetadata) =>
  header.split(",").some((etag) => etag.trim() === "*" || etag.trim().replaceAll('"', "") === metadata.etag);

/** `bytes=a-b`, `bytes=a-`, `bytes=-n`, as [from, to). Throws InvalidRange if it selects no byte. Other forms are ignored, as HTTP allows. */
function rangeOf(header: string | undefined, size: number): { from: number; to: number } | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? "");
  if (!match || (match[1] === "" && match[2] === "")) return undefined;
  const suffix = match[1] === "";
  const from = suffix ? Math.max(0, size - Number(match[2])) : Number(match[1]);
  const to = suffix || match[2] === "" ? size : Math.min(size, Number(match[2]) + 1);
  if (from >= to) throw new S3Error("InvalidRange", `range ${header} is not satisfiable: the object has ${size} bytes`);
  return { from, to };
}

export const checksumHeaders = (checksums: Record<string, string>) =>
  Object.fromEntries(Object.entries(checksums).map(([name, sum]) => [`x-amz-checksum-${name}`, sum]));
