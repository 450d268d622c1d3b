/**
 * @file Objects as files. One object is one file, named by the hash of its key: its bytes, then what is known of it as JSON, then the
 * JSON's length in 4 bytes. It is complete before it gets its name, so an object is there wholly or not at all, also after kill -9:
 *
 *     receive -> temporary file -> journal of events -> link (If-None-Match: *) or rename -> answer
 *
 * `link` fails when the name is taken: the file system picks the one winner. (No fsync: this outlives the process, not the machine's
 * power.)
 */
import { createHash } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Journal } from "../journal.ts";
import type { DiskSpace } from "../disk-space.ts";
import { S3Error } from "./errors.ts";
import { discard, type ReceivedFile, writeAll } from "./receive.ts";

export interface ObjectMetadata {
  readonly key: string;
  readonly size: number;
  readonly etag: string;
  readonly modified: number;
  readonly checksums: Record<string, string>;
  /** Content type and encoding and x-amz-meta-*, as they are sent back. */
  readonly headers: Record<string, string>;
}

export interface ObjectFiles {
  readonly temporary: string;
  createBucket(bucket: string): Promise<void>;
  deleteBucket(bucket: string): Promise<void>;
  buckets(): Promise<string[]>;
  requireBucket(bucket: string): Promise<void>;
  /** Makes a received file the object. The file is used up, whatever happens. */
  commit(bucket: string, object: ObjectCommit): Promise<ObjectMetadata>;
  /** Facts and an open file of the bytes, which the caller closes. */
  open(bucket: string, key: string): Promise<{ facts: ObjectMetadata; file: FileHandle } | undefined>;
  /** The bytes of a small object, in one go. */
  read(bucket: string, key: string): Promise<Uint8Array | undefined>;
  delete(bucket: string, key: string): Promise<void>;
  /** Facts of all objects of a bucket, by key. */
  all(bucket: string): Promise<ObjectMetadata[]>;
}

export interface ObjectCommit {
  readonly key: string;
  readonly received: ReceivedFile;
  readonly headers: Record<string, string>;
  /** If-None-Match: * */
  readonly onlyIfAbsent: boolean;
}

export interface ObjectFilesOptions {
  readonly directory: string;
  readonly space: DiskSpace;
  readonly journal: Journal;
}

export async function openObjectFiles({ directory, space, journal }: ObjectFilesOptions): Promise<ObjectFiles> {
  const [root, temporary] = [join(directory, "buckets"), join(directory, "temporary")];
  // What a killed process was still receiving.
  await rm(temporary, { recursive: true, force: true });
  await mkdir(root, { recursive: true });
  await mkdir(temporary, { recursive: true });
  const folder = (bucket: string) => join(root, valid(bucket));
  const fileOf = (bucket: string, key: string) => {
    const name = createHash("sha256").update(key).digest("hex");
    return join(folder(bucket), name.slice(0, 2), name);
  };
  const known = new Set<string>();
  const shards = new Set<string>();
  const makeShard = (path: string) => {
    if (shards.has(path)) return;
    mkdirSync(path, { recursive: true });
    shards.add(path);
  };

  const files: ObjectFiles = {
    temporary,
    async createBucket(bucket) {
      await mkdir(folder(bucket)).catch((error: NodeJS.ErrnoException) => {
        if (error.code === "EEXIST") throw new S3Error("BucketAlreadyOwnedByYou", bucket);
        throw error;
      });
    },
    async deleteBucket(bucket) {
      if ((await files.all(bucket)).length > 0) throw new S3Error("BucketNotEmpty", bucket);
      known.delete(bucket);
      shards.clear();
      for (const shard of await readdir(folder(bucket))) await rmdir(join(folder(bucket), shard));
      await rmdir(folder(bucket));
    },
    buckets: async () => (await readdir(root)).sort(),
    async requireBucket(bucket) {
      if (known.has(bucket)) return;
      await unlessMissing(readdir(folder(bucket)), () => {
        throw new S3Error("NoSuchBucket", `there is no bucket ${bucket}`);
      });
      known.add(bucket);
    },
    async commit(bucket, object) {
      const { key, received, headers, onlyIfAbsent } = object;
      const { size, etag, checksums } = received;
      const facts = { key, size, etag, modified: Date.now(), checksums, headers };
      const [from, to] = [received.path, fileOf(bucket, key)];
      let settled: (created: boolean) => void = () => {};
      try {
        writeAll(received.file, factsAtTheEnd(facts));
        settled = journal.announce({ bucket, key });
        makeShard(dirname(to));
        if (!onlyIfAbsent) renameSync(from, to);
        else linkSync(from, to);
        settled(true);
        return facts;
      } catch (error) {
        settled(false);
        space.release(received.size);
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
        throw new S3Error("PreconditionFailed", `${key} is there already`);
      } finally {
        discard(received);
      }
    },
    async open(bucket, key) {
      const file = await unlessMissing(open(fileOf(bucket, key), "r"), () => undefined);
      if (!file) return undefined;
      return { file, facts: await readFacts(file) };
    },
    async read(bucket, key) {
      // Four calls of a thread (open, stat, read, close) would take longer than reading a few kilobytes.
      const reading = async () => readFileSync(fileOf(bucket, key));
      const whole = await unlessMissing(reading(), () => undefined);
      return whole && new Uint8Array(whole.buffer, whole.byteOffset, bytesBeforeFacts(whole));
    },
    async delete(bucket, key) {
      const found = await files.open(bucket, key);
      if (!found) return;
      await found.file.close();
      await rm(fileOf(bucket, key), { force: true });
      space.release(found.facts.size);
    },
    async all(bucket) {
      const facts: ObjectMetadata[] = [];
      for (const name of await readdir(folder(bucket), { recursive: true, withFileTypes: true })) {
        if (!name.isFile()) continue;
        const file = await unlessMissing(open(join(name.parentPath, name.name), "r"), () => undefined);
        if (!file) continue;
        facts.push(await readFacts(file).finally(() => file.close()));
      }
      return facts.sort((a, b) => Buffer.compare(Buffer.from(a.key), Buffer.from(b.key)));
    },
  };
  return files;
}

function factsAtTheEnd(facts: ObjectMetadata): Buffer {
  const json = Buffer.from(JSON.stringify(facts));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(json.length);
  return Buffer.concat([json, length]);
}

async function readFacts(file: FileHandle): Promise<ObjectMetadata> {
  const { size } = await file.stat();
  const tail = Buffer.alloc(Math.min(size, 8192));
  await file.read(tail, 0, tail.length, size - tail.length);
  const end = tail.length - 4;
  const length = tail.readUInt32BE(end);
  if (length <= end) return JSON.parse(tail.toString("utf8", end - length, end));
  const json = Buffer.alloc(length);
  await file.read(json, 0, length, size - 4 - length);
  return JSON.parse(json.toString("utf8"));
}

const bytesBeforeFacts = (whole: Buffer) => whole.length - 4 - whole.readUInt32BE(whole.length - 4);

function valid(bucket: string): string {
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket)) throw new S3Error("InvalidBucketName", bucket);
  return bucket;
}

async function unlessMissing<T, U>(result: Promise<T>, otherwise: () => U): Promise<T | U> {
  return result.catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return otherwise();
    throw error;
  });
}
