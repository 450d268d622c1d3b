/** @file GET and HEAD of an object: conditions, ranges, checksums. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { S3Error } from "./errors.ts";
import type { ObjectMetadata, ObjectFiles } from "./object-files.ts";

export async function sendObject(
  objects: ObjectFiles,
  bucket: string,
  key: string,
  { method, headers }: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const found = await objects.open(bucket, key);
  if (!found) throw new S3Error("NoSuchKey", `there is no object ${key}`);
  const { facts, file } = found;
  try {
    if (headers["if-match"] && !names(headers["if-match"], facts)) throw new S3Error("PreconditionFailed", key);
    if (headers["if-none-match"] && names(headers["if-none-match"], facts)) {
      response.writeHead(304, { etag: `"${facts.etag}"` }).end();
      return;
    }
    const range = rangeOf(headers.range, facts.size);
    const { from, to } = range ?? { from: 0, to: facts.size };
    response.writeHead(range ? 206 : 200, {
      ...facts.headers,
      etag: `"${facts.etag}"`,
      "content-length": to - from,
      "last-modified": new Date(facts.modified).toUTCString(),
      "accept-ranges": "bytes",
      ...(range && { "content-range": `bytes ${from}-${to - 1}/${facts.size}` }),
      ...(!range && checksumHeaders(headers, facts)),
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

const names = (header: string, facts: ObjectMetadata) =>
  header.split(",").some((etag) => etag.trim() === "*" || etag.trim().replaceAll('"', "") === facts.etag);

/** `bytes=a-b`, `bytes=a-`, `bytes=-n`, as [from, to). Other ranges are ignored, as HTTP has it. */
function rangeOf(header: string | undefined, size: number): { from: number; to: number } | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? "");
  if (!match || (match[1] === "" && match[2] === "")) return undefined;
  const suffix = match[1] === "";
  const from = suffix ? Math.max(0, size - Number(match[2])) : Number(match[1]);
  const to = suffix || match[2] === "" ? size : Math.min(size, Number(match[2]) + 1);
  if (from >= to) throw new S3Error("InvalidRange", `${header} of ${size} bytes`);
  return { from, to };
}

function checksumHeaders(headers: IncomingHttpHeaders, facts: ObjectMetadata): Record<string, string> {
  if (headers["x-amz-checksum-mode"] === undefined) return {};
  return Object.fromEntries(Object.entries(facts.checksums).map(([name, sum]) => [`x-amz-checksum-${name}`, sum]));
}
