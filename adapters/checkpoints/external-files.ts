/** @file Large base-model files that a manifest refers to: on this machine, or in S3 or on the hub and fetched once. All are verified. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { ExternalPart, OpenExternalPart } from "../../core/checkpoint-source.ts";
import { type HubModelFile, parseHubFile } from "../../core/contracts/hub-model.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { LocalFile } from "../../core/ports.ts";
import { type FileCache, openFileCache } from "./cache.ts";
import { fetchHubFile } from "./hub/file.ts";
import { type HubSettings, hubSettings } from "./hub/settings.ts";
import { readS3Object } from "./s3.ts";

/** Verifies each file once per process. */
export function openExternalFiles(
  cache: FileCache = openFileCache(),
  hub: () => HubSettings = hubSettings,
): OpenExternalPart {
  const opened = new Map<string, Promise<LocalFile>>();
  return (part) => {
    const known = opened.get(part.sha256) ?? open(part, cache, hub);
    opened.set(part.sha256, known);
    known.catch(() => opened.delete(part.sha256));
    return known;
  };
}

async function open(part: ExternalPart, cache: FileCache, hub: () => HubSettings): Promise<LocalFile> {
  const { origin } = part;
  const hubFile = parseHubFile(origin);
  if (hubFile) return fromHub(part, hubFile, hub());
  return origin.startsWith("s3://") ? fromS3(part, cache) : verified(origin, part);
}

async function fromS3(part: ExternalPart, cache: FileCache): Promise<LocalFile> {
  const { origin, sha256, bytes } = part;
  // The cache names a file by the hash of the bytes that it received.
  const file = (await cache.find(sha256)) ?? (await readS3Object(origin, (body) => cache.add(body)));
  if (file.sha256 === sha256) return { path: file.path, bytes, origin };
  throw changed(part);
}

async function fromHub(part: ExternalPart, file: HubModelFile, settings: HubSettings): Promise<LocalFile> {
  return { ...(await verified(await fetchHubFile(file, part, settings), part)), origin: part.origin };
}

async function verified(path: string, part: ExternalPart): Promise<LocalFile> {
  const found = await stat(path).catch((cause: unknown) => {
    const advice =
      "run workers on the machine with the base model, or start the run with a model from the hub or under s3://";
    throw new MgrpoError("not-found", `${path}: no such file on this machine: ${advice}`, { cause });
  });
  if (found.size !== part.bytes) throw changed(part);
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Uint8Array);
  if (hash.digest("hex") !== part.sha256) throw changed(part);
  return { path, bytes: part.bytes };
}

const changed = ({ origin, sha256 }: ExternalPart) =>
  new MgrpoError(
    "checkpoint-damaged",
    `${origin} is not the file that the run was started with (SHA-256 ${sha256.slice(0, 12)}…): restore it`,
  );
