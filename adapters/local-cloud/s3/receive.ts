/**
 * @file Receives a request's body into a temporary file, with every promise about it checked. Files are written synchronously: most
 * bodies have a few kilobytes, whose writing takes less time than handing it to a thread, and larger ones come in pieces.
 */
import { createHash, randomUUID } from "node:crypto";
import { closeSync, openSync, rmSync, writeSync, writevSync } from "node:fs";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { join } from "node:path";
import type { DiskSpace } from "../disk-space.ts";
import { decodeAwsChunked } from "./aws-chunked.ts";
import { openBodyVerifier } from "./checksums.ts";
import { S3Error } from "./errors.ts";

export interface ReceivedFile {
  /** A file that holds the bytes, now the caller's to close, and to rename or remove. */
  readonly path: string;
  /** Its descriptor, at the end of the bytes. */
  readonly file: number;
  readonly size: number;
  readonly etag: string;
  readonly checksums: Record<string, string>;
}

/** Small bodies, such as XML, straight into memory. */
const LARGEST_TEXT = 4 * 2 ** 20;

/** From here on an object's MD5 takes longer than all else that is done with it. */
const LARGE_BYTES = 2 ** 20;

/** A network's pieces are small; files are written in larger ones. */
const WRITE_BYTES = 2 ** 20;

export async function receiveFile(
  request: IncomingMessage,
  temporary: string,
  space: DiskSpace,
  kind: "object" | "part",
): Promise<ReceivedFile> {
  const expected = expectedLength(request.headers);
  await space.reserve(expected ?? 0);
  const path = join(temporary, randomUUID());
  const file = openSync(path, "wx");
  try {
    const verifier = openBodyVerifier(request.headers, kind === "object" && (expected ?? 0) >= LARGE_BYTES);
    const trailers = new Map<string, string>();
    let [size, written] = [0, 0];
    const held: Buffer[] = [];
    const write = () => {
      written = size;
      writeTogether(file, held.splice(0));
    };
    for await (const bytes of payload(request, trailers)) {
      verifier.update(bytes);
      held.push(bytes);
      size += bytes.length;
      if (size - written >= WRITE_BYTES) write();
    }
    write();
    whole(expected, size);
    return { path, file, size, ...verifier.finish(trailers) };
  } catch (error) {
    discard({ path, file });
    space.release(expected ?? 0);
    throw error;
  }
}

/** Bytes of this process itself, as if they had been received. */
export async function receiveBytes(bytes: Uint8Array, temporary: string, space: DiskSpace): Promise<ReceivedFile> {
  await space.reserve(bytes.length);
  const path = join(temporary, randomUUID());
  const file = openSync(path, "wx");
  try {
    writeAll(file, bytes);
  } catch (error) {
    discard({ path, file });
    space.release(bytes.length);
    throw error;
  }
  return { path, file, size: bytes.length, etag: createHash("md5").update(bytes).digest("hex"), checksums: {} };
}

/** Appends all of the bytes; a single write may take only a part of them. */
export function writeAll(file: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
}

/** The same of several pieces, without a copy of them in one. */
function writeTogether(file: number, pieces: readonly Uint8Array[]): void {
  const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const written = pieces.length > 0 ? writevSync(file, pieces) : 0;
  if (written < bytes) writeAll(file, Buffer.concat(pieces).subarray(written));
}

export function discard({ path, file }: Pick<ReceivedFile, "path" | "file">): void {
  closeSync(file);
  rmSync(path, { force: true });
}

export async function receiveText(request: IncomingMessage): Promise<string> {
  const verifier = openBodyVerifier(request.headers);
  const trailers = new Map<string, string>();
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const bytes of payload(request, trailers)) {
    size += bytes.length;
    if (size > LARGEST_TEXT) throw new S3Error("MalformedXML", `a request of more than ${LARGEST_TEXT} bytes`);
    verifier.update(bytes);
    pieces.push(bytes);
  }
  whole(expectedLength(request.headers), size);
  verifier.finish(trailers);
  return Buffer.concat(pieces).toString();
}

function payload(request: IncomingMessage, trailers: Map<string, string>): AsyncIterable<Buffer> {
  // A body that is refused half-way must not take the connection with it: the answer still has to go out.
  const bytes: AsyncIterable<Buffer> = request.iterator({ destroyOnReturn: false });
  return isChunked(request.headers) ? decodeAwsChunked(bytes, trailers) : bytes;
}

const isChunked = (headers: IncomingHttpHeaders) =>
  /aws-chunked/.test(headers["content-encoding"] ?? "") || /^STREAMING-/.test(String(headers["x-amz-content-sha256"]));

function expectedLength(headers: IncomingHttpHeaders): number | undefined {
  const length = isChunked(headers) ? headers["x-amz-decoded-content-length"] : headers["content-length"];
  return length === undefined ? undefined : Number(length);
}

function whole(expected: number | undefined, size: number) {
  if (expected !== undefined && expected !== size)
    throw new S3Error("IncompleteBody", `${size} bytes came of ${expected}`);
}
