/** @file Large base-model files that a manifest refers to: on this machine, or fetched once from S3 or the hub. All are verified. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import type { ExternalPart, OpenExternalPart } from "../../core/checkpoint-source.ts";
import { type HubModelFile, parseHubFile } from "../../core/contracts/hub-model.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { LocalFile } from "../../core/ports.ts";
import { type FileCache, openFileCache } from "./cache.ts";
import { fetchHubFile } from "./hub/file.ts";
import { type HubSettings, hubSettings } from "./hub/settings.ts";
import { readS3Object } from "./s3.ts";

/** The returned function verifies each file once, and again after a failure. */
export function openExternalFiles(
  cache: FileCache = openFileCache(),
  hub: () => HubSettings = hubSettings,
): OpenExternalPart {
  const opened = new Map<string, Promise<LocalFile>>();
  return (part) => {
    const file = opened.get(part.sha256) ?? open(part, cache, hub);
    opened.set(part.sha256, file);
    file.catch(() => opened.delete(part.sha256));
    return file;
  };
}

async function open(part: ExternalPart, cache: FileCache, hub: () => HubSettings): Promise<LocalFile> {
  const { origin } = part;
  const hubFile = parseHubFile(origin);
  if (hubFile) return fromHub(part, hubFile, hub());
  return origin.startsWith("s3://") ? fromS3(part, cache) : fromDisk(part);
}

async function fromS3(part: ExternalPart, cache: FileCache): Promise<LocalFile> {
  const { origin, sha256, bytes } = part;
  const cached = await cache.find(sha256);
  if (cached && (await isPart(cached.path, part))) return { path: cached.path, bytes, origin };
  // The cache names a file by the hash of the bytes that it received, and replaces a damaged file of that name.
  const file = await readS3Object(origin, (body) => cache.add(body));
  if (file.sha256 === sha256) return { path: file.path, bytes, origin };
  throw changed(part);
}

async function fromHub(part: ExternalPart, file: HubModelFile, settings: HubSettings): Promise<LocalFile> {
  const { origin, bytes } = part;
  const path = await fetchHubFile(file, part, settings);
  if (await isPart(path, part)) return { path, bytes, origin };
  throw new MgrpoError(
    "checkpoint-damaged",
    `${await realpath(path)} differs from ${origin} (${hashOf(part)}): delete it to download it again`,
  );
}

async function fromDisk(part: ExternalPart): Promise<LocalFile> {
  if (await isPart(part.origin, part)) return { path: part.origin, bytes: part.bytes };
  throw changed(part);
}

/** Whether the file has the part's size and hash. */
async function isPart(path: string, { sha256, bytes }: ExternalPart): Promise<boolean> {
  try {
    if ((await stat(path)).size !== bytes) return false;
    const hash = createHash("sha256");
    for await (const chunk of createReadStream(path)) hash.update(chunk as Uint8Array);
    return hash.digest("hex") === sha256;
  } catch (cause) {
    throw unreadable(path, cause as NodeJS.ErrnoException);
  }
}

function unreadable(path: string, cause: NodeJS.ErrnoException): MgrpoError {
  const { code = "", message } = cause;
  if (code !== "ENOENT" && code !== "ENOTDIR")
    return new MgrpoError("not-found", `${path} cannot be read (${message}): make it readable`, { cause });
  const advice =
    "put it back, or run workers on the machine that has it, or start a run with a model from the hub or under s3://";
  return new MgrpoError("not-found", `${path}: no such file on this machine: ${advice}`, { cause });
}

const hashOf = ({ sha256 }: ExternalPart) => `SHA-256 ${sha256.slice(0, 12)}…`;

const changed = (part: ExternalPart) =>
  new MgrpoError(
    "checkpoint-damaged",
    `${part.origin} is not the file that the run was started with (${hashOf(part)}): restore it`,
  );
