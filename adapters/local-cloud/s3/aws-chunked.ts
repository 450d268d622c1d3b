/** @file Decodes the aws-chunked content encoding: `<hex length>[;chunk-signature=...]\r\n<bytes>\r\n` ..., `0\r\n`, trailers. */
import { S3Error } from "./errors.ts";

/** Maximum length of a chunk's header, and of all trailers together. */
const MAX_TEXT_BYTES = 16_384;

/** Yields the payload, then fills `trailers`, with lower-case names, before it returns. */
export async function* decodeAwsChunked(
  source: AsyncIterable<Buffer>,
  trailers: Map<string, string>,
): AsyncGenerator<Buffer> {
  let pending: Buffer = Buffer.alloc(0);
  let left = 0;
  let state: "length" | "bytes" | "end of chunk" | "trailers" = "length";
  for await (const piece of source) {
    pending = pending.length > 0 ? Buffer.concat([pending, piece]) : piece;
    while (state !== "trailers") {
      if (state === "bytes") {
        if (pending.length === 0) break;
        const bytes = pending.subarray(0, left);
        yield bytes;
        left -= bytes.length;
        pending = pending.subarray(bytes.length);
        if (left === 0) state = "end of chunk";
      } else if (state === "end of chunk") {
        if (pending.length < 2) break;
        if (pending.toString("latin1", 0, 2) !== "\r\n")
          throw new S3Error("IncompleteBody", "a chunk is longer than its header says");
        pending = pending.subarray(2);
        state = "length";
      } else {
        const end = pending.indexOf("\r\n");
        if (end < 0) break;
        left = lengthOf(pending.toString("latin1", 0, end));
        pending = pending.subarray(end + 2);
        state = left === 0 ? "trailers" : "bytes";
      }
    }
    if (state !== "bytes" && pending.length > MAX_TEXT_BYTES) {
      const text = state === "trailers" ? "the trailers are" : "a chunk's header is";
      throw new S3Error("IncompleteBody", `${text} longer than ${MAX_TEXT_BYTES} bytes`);
    }
  }
  if (state !== "trailers") throw new S3Error("IncompleteBody", "the body ends before its last chunk");
  for (const line of pending.toString("latin1").split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) trailers.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim());
  }
}

function lengthOf(line: string): number {
  const match = /^([0-9a-f]+)(;.*)?$/i.exec(line);
  if (!match?.[1]) throw new S3Error("IncompleteBody", "a chunk has no length");
  return Number.parseInt(match[1], 16);
}
