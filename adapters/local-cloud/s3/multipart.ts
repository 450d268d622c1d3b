/**
 * @file Multipart uploads: a folder per upload with one file per part, named `<number>-<md5>`, joined at the end. An upload
 * that receives no part for two days is removed at the next start.
 */
import { createHash, randomUUID } from "node:crypto";
import { closeSync, createReadStream, existsSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { parseJson } from "../../../core/contracts/parse.ts";
import { isMgrpoError } from "../../../core/errors.ts";
import type { DiskSpace } from "../disk-space.ts";
import { damagedStorage } from "../storage-faults.ts";
import { S3Error } from "./errors.ts";
import type { ObjectFiles } from "./object-files.ts";
import type { ObjectMetadata } from "./object-metadata.ts";
import { type ReceivedFile, toTemporaryFile, writeAll } from "./receive.ts";
import type { PartReference } from "./xml.ts";

/** A deployed bucket keeps incomplete uploads for as long, but counts from their start (stacks/storage.ts). */
const ABANDONED_MILLISECONDS = 2 * 86_400_000;
const MAX_PART_NUMBER = 10_000;
const UPLOAD_ID = /^[0-9a-f-]{36}$/;
const READ_BYTES = 2 ** 20;

const Upload = z.strictObject({
  bucket: z.string(),
  key: z.string(),
  headers: z.record(z.string(), z.string()),
});
type Upload = z.infer<typeof Upload>;

export interface PartMetadata extends PartReference {
  readonly size: number;
}

export async function openMultipartUploads(
  directory: string,
  objects: ObjectFiles,
  space: DiskSpace,
): Promise<MultipartUploads> {
  const root = join(directory, "uploads");
  await mkdir(root, { recursive: true });
  const uploads = new MultipartUploads(root, objects, space);
  // A killed worker never completes its uploads. Every new part updates its folder's mtime.
  for (const id of await readdir(root)) {
    // A file browser may have left a file of its own, such as .DS_Store.
    if (!UPLOAD_ID.test(id)) continue;
    const { mtimeMs } = await stat(join(root, id));
    if (Date.now() - mtimeMs > ABANDONED_MILLISECONDS) await uploads.abort(id);
  }
  return uploads;
}

export class MultipartUploads {
  readonly #root: string;
  readonly #objects: ObjectFiles;
  readonly #space: DiskSpace;

  constructor(root: string, objects: ObjectFiles, space: DiskSpace) {
    this.#root = root;
    this.#objects = objects;
    this.#space = space;
  }

  async begin(upload: Upload): Promise<string> {
    const id = randomUUID();
    await mkdir(join(this.#root, id));
    await writeFile(join(this.#root, id, "upload.json"), JSON.stringify(upload));
    return id;
  }

  /** Replaces an earlier part with the same number. */
  async putPart(id: string, number: number, received: ReceivedFile): Promise<void> {
    closeSync(received.fd);
    try {
      this.#place(id, number, received);
    } catch (error) {
      this.#space.release(received.size);
      throw error;
    }
  }

  /** Synchronous: of two concurrent uploads of one part, the later one replaces the earlier one, whose bytes are released once. */
  #place(id: string, number: number, { path, etag }: ReceivedFile): void {
    if (!(Number.isInteger(number) && number >= 1 && number <= MAX_PART_NUMBER))
      throw new S3Error("InvalidArgument", `partNumber must be an integer from 1 to ${MAX_PART_NUMBER}`);
    const folder = this.#folder(id);
    const replaced = storedParts(folder, number);
    renameSync(path, partPath(folder, { number, etag }));
    for (const part of replaced) {
      if (part.etag !== etag) rmSync(partPath(folder, part), { force: true });
      this.#space.release(part.size);
    }
  }

  /** Ordered by number. */
  async parts(id: string): Promise<PartMetadata[]> {
    return storedParts(this.#folder(id));
  }

  async complete(id: string, wanted: readonly PartReference[], onlyIfAbsent: boolean): Promise<ObjectMetadata> {
    const folder = this.#folder(id);
    const { bucket, key, headers } = await readUpload(folder);
    const parts = selectParts(await this.parts(id), wanted);
    const received = await this.#join(folder, parts);
    const metadata = await this.#objects.commit(bucket, { key, received, headers, onlyIfAbsent });
    await this.abort(id);
    return metadata;
  }

  async abort(id: string): Promise<void> {
    const folder = this.#folder(id);
    const parts = storedParts(folder);
    // Moved synchronously: of two concurrent calls, one finds no upload, and bytes are released once.
    const removed = join(this.#objects.temporary, id);
    renameSync(folder, removed);
    await rm(removed, { recursive: true });
    for (const part of parts) this.#space.release(part.size);
  }

  #folder(id: string): string {
    const path = join(this.#root, UPLOAD_ID.test(id) ? id : "none");
    if (!existsSync(path)) throw new S3Error("NoSuchUpload", id);
    return path;
  }

  #join(folder: string, parts: readonly PartMetadata[]): Promise<ReceivedFile> {
    const size = parts.reduce((total, part) => total + part.size, 0);
    return toTemporaryFile(this.#objects.temporary, this.#space, size, async (fd, reservation) => {
      for (const part of parts) {
        const bytes = createReadStream(partPath(folder, part), { highWaterMark: READ_BYTES });
        for await (const piece of bytes as AsyncIterable<Buffer>) {
          writeAll(fd, piece);
          reservation.wrote(piece.length);
        }
      }
      return { size, etag: joinedEtag(parts), checksums: {} };
    });
  }
}

const partPath = (folder: string, { number, etag }: PartReference) => join(folder, `${number}-${etag}`);

/** S3's ETag of a multipart upload: the MD5 of the parts' concatenated MD5s, then the number of parts. */
function joinedEtag(parts: readonly PartReference[]): string {
  const md5s = Buffer.from(parts.map(({ etag }) => etag).join(""), "hex");
  return `${createHash("md5").update(md5s).digest("hex")}-${parts.length}`;
}

/** Ordered by number. @param onlyNumber leaves out parts with other numbers; absent: all parts. */
function storedParts(folder: string, onlyNumber?: number): PartMetadata[] {
  return readdirSync(folder)
    .map((name) => /^(\d+)-([0-9a-f]{32})$/.exec(name))
    .filter((match) => match !== null)
    .map(([name, number, etag]) => ({ name, number: Number(number), etag: String(etag) }))
    .filter(({ number }) => onlyNumber === undefined || number === onlyNumber)
    .map(({ name, number, etag }) => ({ number, etag, size: statSync(join(folder, name)).size }))
    .sort((a, b) => a.number - b.number);
}

async function readUpload(folder: string): Promise<Upload> {
  const path = join(folder, "upload.json");
  try {
    return parseJson(Upload, await readFile(path), path);
  } catch (cause) {
    if (!isMgrpoError(cause)) throw cause;
    throw damagedStorage(
      path,
      "it does not describe an upload",
      "delete its folder, and the upload starts again",
      cause,
    );
  }
}

/** The parts that the request names, which must exist, be unchanged, and be in order. */
function selectParts(stored: readonly PartMetadata[], wanted: readonly PartReference[]): PartMetadata[] {
  return wanted.map(({ number, etag }, i) => {
    const part = stored.find((one) => one.number === number);
    if (part?.etag !== etag) throw new S3Error("InvalidPart", `part ${number} was not uploaded, or has another ETag`);
    if (number <= (wanted[i - 1]?.number ?? 0)) throw new S3Error("InvalidPartOrder", `part ${number} is out of order`);
    return part;
  });
}
