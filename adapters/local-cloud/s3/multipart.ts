/**
 * @file Uploads in parts: a folder per upload with one file per part, named `<number>-<md5>`, put together at the end. What nobody
 * completed goes when the cloud is started after two days.
 */
import { createHash, randomUUID } from "node:crypto";
import { closeSync, createReadStream, openSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { DiskSpace } from "../disk-space.ts";
import { S3Error } from "./errors.ts";
import type { ObjectMetadata, ObjectFiles } from "./object-files.ts";
import { discard, type ReceivedFile, writeAll } from "./receive.ts";

/** As long as the bucket of a deployment keeps them (stacks/storage.ts). */
const ABANDONED_MILLISECONDS = 2 * 86_400_000;

interface Upload {
  readonly bucket: string;
  readonly key: string;
  readonly headers: Record<string, string>;
}

export interface PartMetadata {
  readonly number: number;
  readonly etag: string;
  readonly size: number;
}

export interface MultipartUploads {
  begin(upload: Upload): Promise<string>;
  putPart(id: string, number: number, received: ReceivedFile): Promise<void>;
  parts(id: string): Promise<PartMetadata[]>;
  complete(
    id: string,
    wanted: readonly { number: number; etag: string }[],
    onlyIfAbsent: boolean,
  ): Promise<ObjectMetadata>;
  abort(id: string): Promise<void>;
}

export async function openMultipartUploads(
  directory: string,
  objects: ObjectFiles,
  space: DiskSpace,
): Promise<MultipartUploads> {
  const root = join(directory, "uploads");
  await mkdir(root, { recursive: true });

  const folder = async (id: string) => {
    const path = join(root, /^[0-9a-f-]{36}$/.test(id) ? id : "none");
    if (!(await stat(path).catch(() => undefined))) throw new S3Error("NoSuchUpload", id);
    return path;
  };

  const uploads: MultipartUploads = {
    async begin(upload) {
      const id = randomUUID();
      await mkdir(join(root, id));
      await writeFile(join(root, id, "upload.json"), JSON.stringify(upload));
      return id;
    },
    async putPart(id, number, received) {
      closeSync(received.file);
      if (!(number >= 1 && number <= 10_000)) throw new S3Error("InvalidArgument", `part ${number}`);
      const path = await folder(id);
      const former = (await uploads.parts(id)).filter((part) => part.number === number && part.etag !== received.etag);
      await rename(received.path, join(path, `${number}-${received.etag}`));
      for (const part of former) await rm(join(path, `${number}-${part.etag}`), { force: true });
    },
    async parts(id) {
      const path = await folder(id);
      const names = (await readdir(path))
        .map((name) => /^(\d+)-([0-9a-f]{32})$/.exec(name))
        .filter((match) => match !== null);
      const parts = names.map(async ([name, number, etag]) => ({
        number: Number(number),
        etag: String(etag),
        size: (await stat(join(path, name))).size,
      }));
      return (await Promise.all(parts)).sort((a, b) => a.number - b.number);
    },
    async complete(id, wanted, onlyIfAbsent) {
      const path = await folder(id);
      const upload = JSON.parse(await readFile(join(path, "upload.json"), "utf8")) as Upload;
      const parts = chosen(await uploads.parts(id), wanted);
      const size = parts.reduce((total, part) => total + part.size, 0);
      await space.reserve(size);
      const whole = join(objects.temporary, randomUUID());
      const file = openSync(whole, "wx");
      const md5 = createHash("md5")
        .update(Buffer.from(parts.map((part) => part.etag).join(""), "hex"))
        .digest("hex");
      try {
        for (const part of parts)
          for await (const bytes of createReadStream(join(path, `${part.number}-${part.etag}`), {
            highWaterMark: 2 ** 20,
          }))
            writeAll(file, bytes as Buffer);
      } catch (error) {
        discard({ path: whole, file });
        throw error;
      }
      const received = { path: whole, file, size, etag: `${md5}-${parts.length}`, checksums: {} };
      const { key, headers } = upload;
      const facts = await objects.commit(upload.bucket, { key, received, headers, onlyIfAbsent });
      await uploads.abort(id);
      return facts;
    },
    async abort(id) {
      const path = await folder(id);
      for (const part of await uploads.parts(id)) space.release(part.size);
      await rm(path, { recursive: true });
    },
  };
  // A worker that was killed completes nothing. Each part that is put is news of its folder.
  for (const id of await readdir(root)) {
    const { mtimeMs } = await stat(join(root, id));
    if (Date.now() - mtimeMs > ABANDONED_MILLISECONDS) await uploads.abort(id);
  }
  return uploads;
}

/** The parts asked for, which must be there, the same, and in order. */
function chosen(there: readonly PartMetadata[], wanted: readonly { number: number; etag: string }[]): PartMetadata[] {
  return wanted.map(({ number, etag }, i) => {
    const part = there.find((one) => one.number === number);
    if (part?.etag !== etag) throw new S3Error("InvalidPart", `part ${number} is not what was uploaded`);
    if (number <= (wanted[i - 1]?.number ?? 0)) throw new S3Error("InvalidPartOrder", `part ${number} comes too late`);
    return part;
  });
}
