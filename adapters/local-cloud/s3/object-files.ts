/**
 * @file Objects as files, named by the hash of their keys. A file is complete before it gets its name, so an object exists in full or not
 * at all, even after kill -9:
 *
 *     receive -> temporary file -> journal of events -> link (If-None-Match: *) or rename -> response
 *
 * `link` fails when the name is taken: the file system picks the single winner. There is no fsync: objects survive a process crash, but a
 * power failure may lose or damage them.
 */
import { createHash } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rm, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { DiskSpace } from "../disk-space.ts";
import type { Journal } from "../journal.ts";
import { S3Error } from "./errors.ts";
import { byteOrder } from "./list.ts";
import { bytesOf, metadataTrailer, type ObjectMetadata, objectSize, readMetadata } from "./object-metadata.ts";
import { discard, type ReceivedFile, writeAll } from "./receive.ts";

/** Any other file in a bucket is not ours: a file browser may have left a .DS_Store. */
const OBJECT_NAME = /^[0-9a-f]{64}$/;

export interface ObjectFilesOptions {
  readonly directory: string;
  readonly space: DiskSpace;
  readonly journal: Journal;
}

export interface ObjectCommit {
  readonly key: string;
  readonly received: ReceivedFile;
  readonly headers: Record<string, string>;
  /** If-None-Match: * */
  readonly onlyIfAbsent: boolean;
}

/** An object's metadata and its open file, which the caller closes. */
export interface OpenObject {
  readonly metadata: ObjectMetadata;
  readonly file: FileHandle;
}

export async function openObjectFiles(options: ObjectFilesOptions): Promise<ObjectFiles> {
  const files = new ObjectFiles(options);
  // Leftovers from a killed process.
  await rm(files.temporary, { recursive: true, force: true });
  await mkdir(files.root, { recursive: true });
  await mkdir(files.temporary, { recursive: true });
  return files;
}

export class ObjectFiles {
  readonly root: string;
  readonly temporary: string;
  readonly #space: DiskSpace;
  readonly #journal: Journal;
  /** Names of buckets that are known to exist. */
  readonly #buckets = new Set<string>();
  /** Paths of folders in buckets that are known to exist. */
  readonly #shards = new Set<string>();

  constructor({ directory, space, journal }: ObjectFilesOptions) {
    this.root = join(directory, "buckets");
    this.temporary = join(directory, "temporary");
    this.#space = space;
    this.#journal = journal;
  }

  async buckets(): Promise<string[]> {
    const entries = await readdir(this.root, { withFileTypes: true });
    return entries.flatMap((entry) => (entry.isDirectory() ? entry.name : [])).sort();
  }

  async createBucket(bucket: string): Promise<void> {
    await mkdir(this.#folder(bucket)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "EEXIST") throw new S3Error("BucketAlreadyOwnedByYou", bucket);
      throw error;
    });
  }

  async deleteBucket(bucket: string): Promise<void> {
    if ((await this.listObjects(bucket)).length > 0) throw new S3Error("BucketNotEmpty", bucket);
    this.#buckets.delete(bucket);
    this.#shards.clear();
    const folder = this.#folder(bucket);
    for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
      if (entry.isFile() && !OBJECT_NAME.test(entry.name)) await rm(join(entry.parentPath, entry.name));
    }
    for (const shard of await readdir(folder)) await rmdir(join(folder, shard));
    await rmdir(folder);
  }

  async requireBucket(bucket: string): Promise<void> {
    if (this.#buckets.has(bucket)) return;
    await unlessMissing(readdir(this.#folder(bucket)), () => {
      throw new S3Error("NoSuchBucket", `there is no bucket ${bucket}`);
    });
    this.#buckets.add(bucket);
  }

  /** Turns a received file into the object. The file is consumed even on failure. */
  async commit(bucket: string, { key, received, headers, onlyIfAbsent }: ObjectCommit): Promise<ObjectMetadata> {
    const { size, etag, checksums } = received;
    const metadata = { key, size, etag, modified: Date.now(), checksums, headers };
    let settle: (created: boolean) => void = () => {};
    try {
      writeAll(received.fd, metadataTrailer(metadata));
      settle = this.#journal.announce({ bucket, key });
      this.#place(received.path, this.#path(bucket, key), onlyIfAbsent);
      settle(true);
      return metadata;
    } catch (error) {
      settle(false);
      this.#space.release(received.size);
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      throw new S3Error("PreconditionFailed", `${key} already exists`);
    } finally {
      discard(received);
    }
  }

  async open(bucket: string, key: string): Promise<OpenObject | undefined> {
    return openObject(this.#path(bucket, key));
  }

  /** All bytes of a small object. */
  async read(bucket: string, key: string): Promise<Uint8Array | undefined> {
    const path = this.#path(bucket, key);
    // Synchronous: four round trips to the thread pool (open, stat, read, close) take longer than reading a few kilobytes.
    const whole = await unlessMissing((async () => readFileSync(path))(), () => undefined);
    return whole && bytesOf(whole, path);
  }

  async delete(bucket: string, key: string): Promise<void> {
    const object = await this.open(bucket, key);
    if (!object) return;
    await object.file.close();
    // Another call may have deleted or replaced the object meanwhile. No `await` follows, so the released bytes are those of the removed file.
    const path = this.#path(bucket, key);
    const bytes = objectSize(path);
    rmSync(path, { force: true });
    this.#space.release(bytes);
  }

  /** The metadata of all objects in a bucket, in the byte order of their keys. */
  async listObjects(bucket: string): Promise<ObjectMetadata[]> {
    const all: ObjectMetadata[] = [];
    for (const entry of await readdir(this.#folder(bucket), { recursive: true, withFileTypes: true })) {
      const isObject = entry.isFile() && OBJECT_NAME.test(entry.name);
      const object = isObject ? await openObject(join(entry.parentPath, entry.name)) : undefined;
      await object?.file.close();
      if (object) all.push(object.metadata);
    }
    return all.sort((a, b) => byteOrder(a.key, b.key));
  }

  #place(from: string, to: string, onlyIfAbsent: boolean): void {
    this.#requireShard(dirname(to));
    if (onlyIfAbsent) {
      linkSync(from, to);
      return;
    }
    const replacedBytes = objectSize(to);
    renameSync(from, to);
    this.#space.release(replacedBytes);
  }

  #requireShard(shard: string): void {
    if (this.#shards.has(shard)) return;
    try {
      // Not recursive: the bucket may have been deleted while its object was received.
      mkdirSync(shard);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") throw new S3Error("NoSuchBucket", `there is no bucket ${basename(dirname(shard))}`);
      if (code !== "EEXIST") throw error;
    }
    this.#shards.add(shard);
  }

  #folder(bucket: string): string {
    if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket)) throw new S3Error("InvalidBucketName", bucket);
    return join(this.root, bucket);
  }

  #path(bucket: string, key: string): string {
    const name = createHash("sha256").update(key).digest("hex");
    return join(this.#folder(bucket), name.slice(0, 2), name);
  }
}

async function openObject(path: string): Promise<OpenObject | undefined> {
  const file = await unlessMissing(open(path, "r"), () => undefined);
  if (!file) return undefined;
  try {
    return { file, metadata: await readMetadata(file, path) };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function unlessMissing<T, U>(result: Promise<T>, otherwise: () => U): Promise<T | U> {
  return result.catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return otherwise();
    throw error;
  });
}
