/**
 * @file Downloads one file from the hub into its blob. An interrupted download leaves `<blob>.incomplete`, which the next one resumes.
 *
 *     absent ──created──> incomplete ──last byte, right hash──> blob
 *                             └──wrong hash──> deleted: `checkpoint-damaged`
 *
 * A process that finds an incomplete file that another process is writing waits for it: unblocked by the blob, by 5 seconds without growth, or
 * by the file's deletion.
 * Two processes that resume the same file write the same bytes at the same positions, and the first to finish renames the file to the blob.
 */
import { createHash, type Hash } from "node:crypto";
import { constants, createReadStream, existsSync } from "node:fs";
import { mkdir, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isMgrpoError, MgrpoError } from "../../../core/errors.ts";
import { diskFault } from "../disk-fault.ts";
import { hubUnavailable, readAnswer, requestFault } from "./fetch.ts";
import type { HubSettings } from "./settings.ts";

export interface HubFile {
  readonly path: string;
  readonly bytes: number;
  /** SHA-256 of a large file, git's SHA-1 of others: the blob's name. */
  readonly hash: string;
}

export interface Download {
  readonly repository: string;
  readonly commit: string;
  readonly file: HubFile;
  readonly blob: string;
  readonly settings: HubSettings;
  readonly fetch: typeof fetch;
  /** Called with the number of bytes on disk. */
  readonly onBytes: (bytes: number) => void;
}

const ATTEMPTS = 5;
const QUIET_MILLISECONDS = 5000;
const POLL_MILLISECONDS = 250;

/** Rejects with `hub-unavailable`, `hub-refused`, `not-found`, `checkpoint-damaged`, `disk-full` or `storage-unwritable`. */
export async function downloadBlob(download: Download): Promise<void> {
  const incomplete = `${download.blob}.incomplete`;
  try {
    await fetchInto(incomplete, download);
  } catch (error) {
    throw diskFault(incomplete, error, "HF_HUB_CACHE");
  }
}

async function fetchInto(incomplete: string, download: Download): Promise<void> {
  const { blob, file } = download;
  await mkdir(dirname(blob), { recursive: true });
  const isMine = await create(incomplete);
  while (!isMine && !existsSync(blob) && (await isGrowing(incomplete))) await sleep(POLL_MILLISECONDS);
  for (let attempt = 1; ; attempt++) {
    if (existsSync(blob)) return;
    try {
      await append(download, incomplete);
      break;
    } catch (error) {
      // `append` may have created the file again after another process renamed it.
      if (existsSync(blob)) return rm(incomplete, { force: true });
      const canRetry = isMgrpoError(error, "hub-unavailable") && attempt < ATTEMPTS;
      if (!canRetry) throw error;
      await sleep(200 * 2 ** attempt);
    }
  }
  const found = await hashOf(incomplete, file).catch(rethrowUnlessFinished(download));
  if (found === undefined) return;
  if (found !== file.hash) {
    await rm(incomplete, { force: true });
    throw damaged(
      download,
      `has the hash ${found.slice(0, 12)}…, but the hub lists ${file.hash.slice(0, 12)}…, so it was deleted`,
    );
  }
  await rename(incomplete, blob).catch(rethrowUnlessFinished(download));
}

const damaged = ({ repository, file }: Download, fault: string): MgrpoError =>
  new MgrpoError(
    "checkpoint-damaged",
    `hf:${repository}: the download of ${file.path} ${fault}: run the command again`,
  );

/** Ignores an error if another process has finished the blob in the meantime. */
const rethrowUnlessFinished = (download: Download) => (error: NodeJS.ErrnoException) => {
  if (existsSync(download.blob)) return undefined;
  if (error.code === "ENOENT") throw damaged(download, "was damaged, so another process deleted it");
  throw error;
};

/** Creates the file unless it exists. Resolves with whether this call created it. */
const create = (path: string): Promise<boolean> =>
  open(path, "wx").then(
    async (handle) => {
      await handle.close();
      return true;
    },
    (error: NodeJS.ErrnoException) => {
      if (error.code === "EEXIST") return false;
      throw error;
    },
  );

const isGrowing = (path: string): Promise<boolean> =>
  stat(path).then(
    // A time far in the future is that of another clock, and says nothing about growth.
    ({ mtimeMs }) => Math.abs(Date.now() - mtimeMs) < QUIET_MILLISECONDS,
    () => false,
  );

/** Writes the bytes that are missing: all of them if another process deleted the file as damaged. */
async function append(download: Download, path: string): Promise<void> {
  const { file, onBytes } = download;
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT);
  try {
    let { size } = await handle.stat();
    // Longer than the file that the hub lists: its hash cannot be right.
    if (size > file.bytes) {
      await handle.truncate();
      size = 0;
    }
    onBytes(size);
    if (size === file.bytes) return;
    for await (const chunk of bytesFrom(size, download)) {
      // A write may be short, as on a disk that is almost full.
      for (let at = 0; at < chunk.length; ) {
        const { bytesWritten } = await handle.write(chunk, at, chunk.length - at, size);
        at += bytesWritten;
        size += bytesWritten;
      }
      onBytes(size);
    }
  } finally {
    await handle.close();
  }
}

/** The file's bytes from `start` on. Rejects unless all of them arrive. */
async function* bytesFrom(start: number, { repository, commit, file, settings, fetch }: Download) {
  // Loaded on demand: few commands download anything.
  const { downloadFile } = await import("@huggingface/hub");
  const request = {
    repo: { type: "model", name: repository },
    path: file.path,
    revision: commit,
    hubUrl: settings.url,
    fetch,
    // Plain range requests can be resumed, and mirrors support them.
    xet: false,
    ...(settings.token !== undefined && { accessToken: settings.token }),
  } as const;
  const remote = await readAnswer(settings, () => downloadFile(request));
  if (!remote) {
    throw new MgrpoError(
      "not-found",
      `hf:${repository} has no ${file.path} at ${commit}: name another model or revision`,
    );
  }
  let size = start;
  const interrupted = (why: string, cause?: unknown) =>
    hubUnavailable(
      `the download of ${file.path} from ${settings.url} was interrupted after ${size} of ${file.bytes} bytes (${why})`,
      cause,
    );
  try {
    const chunks: AsyncIterable<Uint8Array> = remote.slice(start).stream();
    for await (const chunk of chunks) {
      size += chunk.length;
      yield chunk;
      // Longer than the file that the hub lists: the hash will be wrong. An endless response would fill the disk.
      if (size > file.bytes) return;
    }
  } catch (cause) {
    // If `fetch` rejects, the library passes on only the message.
    throw interrupted(requestFault(cause), cause);
  }
  if (size < file.bytes) throw interrupted("the response ended");
}

/** The hash by which the hub names the file: SHA-256, or git's hash of a blob. */
async function hashOf(path: string, { hash, bytes }: HubFile): Promise<string> {
  const digest: Hash = hash.length === 64 ? createHash("sha256") : createHash("sha1").update(`blob ${bytes}\0`);
  for await (const chunk of createReadStream(path)) digest.update(chunk as Uint8Array);
  return digest.digest("hex");
}
