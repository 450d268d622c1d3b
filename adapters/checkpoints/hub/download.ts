/**
 * @file Fetches one file of the hub into its blob. An interrupted download leaves `<blob>.incomplete`, which the next one continues.
 *
 *     absent ──created──> incomplete ──last byte, right hash──> blob
 *                             └──wrong hash──> deleted: `checkpoint-damaged`
 *
 * A process that finds an incomplete file another process is writing waits for it: unblocked by the blob, or by 5 seconds without growth.
 * Two processes that continue the same file write the same bytes at the same positions, and the first to finish names the blob.
 */
import { createHash, type Hash } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { mkdir, open, rename, rm, stat, truncate } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isMgrpoError, MgrpoError } from "../../../core/errors.ts";
import { hubAway } from "./fetch.ts";
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

export async function downloadBlob(download: Download): Promise<void> {
  const { blob, file } = download;
  const incomplete = `${blob}.incomplete`;
  await mkdir(dirname(blob), { recursive: true });
  const isMine = await create(incomplete);
  while (!isMine && !existsSync(blob) && (await isGrowing(incomplete))) await sleep(POLL_MILLISECONDS);
  if (existsSync(blob)) return;
  for (let attempt = 1; ; attempt++) {
    try {
      await append(download, incomplete);
      break;
    } catch (error) {
      if (existsSync(blob)) return;
      const canRetry = isMgrpoError(error, "hub-unavailable") && attempt < ATTEMPTS;
      if (!canRetry) throw error;
      await sleep(200 * 2 ** attempt);
    }
  }
  const found = await hashOf(incomplete, file).catch(unlessExists(blob));
  if (found === undefined) return;
  if (found !== file.hash) {
    await rm(incomplete, { force: true });
    throw new MgrpoError(
      "checkpoint-damaged",
      `hf:${download.repository}: ${file.path} arrived with other bytes than the hub lists (${found.slice(0, 12)}… for ${file.hash.slice(0, 12)}…): run the command again`,
    );
  }
  await rename(incomplete, blob).catch(unlessExists(blob));
}

/** Ignores an error where another process has finished the blob meanwhile. */
const unlessExists = (blob: string) => (error: unknown) => {
  if (!existsSync(blob)) throw error;
  return undefined;
};

/** Whether this process created the file. */
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
    ({ mtimeMs }) => Date.now() - mtimeMs < QUIET_MILLISECONDS,
    () => false,
  );

/** Writes the bytes that are missing. */
async function append({ repository, commit, file, settings, fetch, onBytes }: Download, path: string): Promise<void> {
  let { size } = await stat(path);
  // Longer than the file that the hub lists: its hash cannot be right.
  if (size > file.bytes) {
    await truncate(path);
    size = 0;
  }
  onBytes(size);
  if (size === file.bytes) return;
  // On demand: few commands download anything.
  const { downloadFile } = await import("@huggingface/hub");
  const blob = await downloadFile({
    repo: { type: "model", name: repository },
    path: file.path,
    revision: commit,
    hubUrl: settings.url,
    fetch,
    // Plain range requests can be resumed, and mirrors support them.
    xet: false,
    ...(settings.token !== undefined && { accessToken: settings.token }),
  });
  if (!blob) throw new MgrpoError("not-found", `hf:${repository} has no ${file.path} at ${commit}`);
  const handle = await open(path, "r+");
  try {
    for await (const chunk of blob.slice(size).stream() as unknown as AsyncIterable<Uint8Array>) {
      await handle.write(chunk, 0, chunk.length, size);
      size += chunk.length;
      onBytes(size);
    }
  } catch (cause) {
    throw isMgrpoError(cause) ? cause : hubAway(settings.url, `${file.path} broke off after ${size} bytes`, cause);
  } finally {
    await handle.close();
  }
  if (size < file.bytes) throw hubAway(settings.url, `${file.path} broke off after ${size} bytes`);
}

/** As the hub names the file: SHA-256, or git's hash of a blob. */
async function hashOf(path: string, { hash, bytes }: HubFile): Promise<string> {
  const digest: Hash = hash.length === 64 ? createHash("sha256") : createHash("sha1").update(`blob ${bytes}\0`);
  for await (const chunk of createReadStream(path)) digest.update(chunk as Uint8Array);
  return digest.digest("hex");
}
