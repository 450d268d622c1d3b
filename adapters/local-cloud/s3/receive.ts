/**
 * @file Receives a request's body into a temporary file or memory, and checks it against everything its headers declare. Writes are
 * synchronous: most bodies are a few kilobytes, faster to write than to hand to another thread; larger ones arrive in pieces.
 */
import { createHash, randomUUID } from "node:crypto";
import { closeSync, openSync, rmSync, writeSync, writevSync } from "node:fs";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { join } from "node:path";
import type { DiskSpace, Reservation } from "../disk-space.ts";
import { decodeAwsChunked } from "./aws-chunked.ts";
import { openBodyVerifier } from "./checksums.ts";
import { S3Error } from "./errors.ts";

export interface ReceivedFile {
  /** A file with the bytes. The caller must close it, and rename or remove it. */
  readonly path: string;
  /** Its descriptor, at the end of the bytes. */
  readonly fd: number;
  readonly size: number;
  readonly etag: string;
  readonly checksums: Record<string, string>;
}

/** Limit on bodies that are read into memory, such as XML. */
const MAX_TEXT_BYTES = 4 * 2 ** 20;

/** From this size on, the MD5 takes longer than all other work on an object: checksums.ts avoids it where possible. */
const LARGE_BYTES = 2 ** 20;

/** Pieces from the network are small; files are written in larger ones. */
const WRITE_BYTES = 2 ** 20;

export async function receiveFile(
  request: IncomingMessage,
  temporary: string,
  space: DiskSpace,
  kind: "object" | "part",
): Promise<ReceivedFile> {
  const expected = expectedLength(request.headers);
  // Without a length, no space could be reserved. S3 refuses such a request too.
  if (expected === undefined)
    throw new S3Error("MissingContentLength", `the request has no ${lengthHeader(request.headers)}: send it`);
  return toTemporaryFile(temporary, space, expected, async (fd, reservation) => {
    const verifier = openBodyVerifier(request.headers, kind === "object" && expected >= LARGE_BYTES);
    const trailers = new Map<string, string>();
    const writer = new PieceWriter(fd, reservation);
    for await (const bytes of payload(request, trailers)) {
      verifier.update(bytes);
      writer.add(bytes);
      // An aws-chunked body may be longer than it declares, without bound, and no space is reserved for more.
      if (writer.size > expected) break;
    }
    requireComplete(expected, writer.size);
    writer.flush();
    return { size: writer.size, ...verifier.finish(trailers) };
  });
}

/** Writes bytes to a temporary file, as if a request had carried them. */
export function receiveBytes(bytes: Uint8Array, temporary: string, space: DiskSpace): Promise<ReceivedFile> {
  return toTemporaryFile(temporary, space, bytes.length, async (fd) => {
    writeAll(fd, bytes);
    return { size: bytes.length, etag: createHash("md5").update(bytes).digest("hex"), checksums: {} };
  });
}

/** Reserves space, opens a file and lets `write` fill it. If any of this fails, no file and no reserved space remain. */
export async function toTemporaryFile(
  temporary: string,
  space: DiskSpace,
  bytes: number,
  write: (fd: number, reservation: Reservation) => Promise<Omit<ReceivedFile, "path" | "fd">>,
): Promise<ReceivedFile> {
  const reservation = await space.reserve(bytes);
  const path = join(temporary, randomUUID());
  try {
    const fd = openSync(path, "wx");
    try {
      return { path, fd, ...(await write(fd, reservation)) };
    } catch (error) {
      discard({ path, fd });
      throw error;
    }
  } catch (error) {
    space.release(bytes);
    throw error;
  } finally {
    reservation.end();
  }
}

/** Collects pieces and writes them together. */
class PieceWriter {
  readonly #fd: number;
  readonly #reservation: Reservation;
  readonly #pieces: Uint8Array[] = [];
  #written = 0;
  size = 0;

  constructor(fd: number, reservation: Reservation) {
    this.#fd = fd;
    this.#reservation = reservation;
  }

  add(piece: Uint8Array): void {
    this.#pieces.push(piece);
    this.size += piece.length;
    if (this.size - this.#written >= WRITE_BYTES) this.flush();
  }

  flush(): void {
    const pieces = this.#pieces.splice(0);
    const bytes = this.size - this.#written;
    this.#written = this.size;
    // One call for all of them, without a copy; it may write only some of the bytes.
    const written = pieces.length > 0 ? writevSync(this.#fd, pieces) : 0;
    if (written < bytes) writeAll(this.#fd, Buffer.concat(pieces).subarray(written));
    this.#reservation.wrote(bytes);
  }
}

/** Appends all bytes; a single write may take only some of them. */
export function writeAll(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
}

export function discard({ path, fd }: Pick<ReceivedFile, "path" | "fd">): void {
  closeSync(fd);
  rmSync(path, { force: true });
}

export async function receiveText(request: IncomingMessage): Promise<string> {
  const verifier = openBodyVerifier(request.headers);
  const trailers = new Map<string, string>();
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const bytes of payload(request, trailers)) {
    size += bytes.length;
    if (size > MAX_TEXT_BYTES)
      throw new S3Error("MaxMessageLengthExceeded", `the body is larger than ${MAX_TEXT_BYTES} bytes`);
    verifier.update(bytes);
    pieces.push(bytes);
  }
  requireComplete(expectedLength(request.headers), size);
  verifier.finish(trailers);
  return Buffer.concat(pieces).toString();
}

function payload(request: IncomingMessage, trailers: Map<string, string>): AsyncIterable<Buffer> {
  // A body that is refused halfway must not close the connection: the response still has to be sent.
  const bytes: AsyncIterable<Buffer> = request.iterator({ destroyOnReturn: false });
  return isChunked(request.headers) ? decodeAwsChunked(bytes, trailers) : bytes;
}

const isChunked = (headers: IncomingHttpHeaders) =>
  /aws-chunked/.test(headers["content-encoding"] ?? "") || /^STREAMING-/.test(String(headers["x-amz-content-sha256"]));

/** The header that declares the length of the payload. */
const lengthHeader = (headers: IncomingHttpHeaders) =>
  isChunked(headers) ? "x-amz-decoded-content-length" : "content-length";

function expectedLength(headers: IncomingHttpHeaders): number | undefined {
  const length = headers[lengthHeader(headers)];
  if (length === undefined) return undefined;
  if (!/^\d+$/.test(String(length)))
    throw new S3Error("InvalidArgument", `the body's length is '${length}': use digits`);
  return Number(length);
}

function requireComplete(expected: number | undefined, size: number): void {
  if (expected !== undefined && expected !== size)
    throw new S3Error("IncompleteBody", `received ${size} bytes of ${expected}`);
}
