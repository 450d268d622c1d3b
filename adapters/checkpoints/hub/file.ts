/** @file Gets one large file of the Hugging Face Hub, by commit and SHA-256: from the cache, or downloaded into it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type HubModelFile, hubFileName } from "../../../core/contracts/hub-model.ts";
import { MgrpoError } from "../../../core/errors.ts";
import { openRepositoryCache } from "./cache.ts";
import { downloadBlob } from "./download.ts";
import { hubFetch } from "./fetch.ts";
import type { HubSettings } from "./settings.ts";

/** Hash and size of a large (LFS) file, whose blob in the cache is named by its SHA-256. */
interface LargeFile {
  readonly sha256: string;
  readonly bytes: number;
}

/**
 * Returns the file's path in the cache. A download is checked against the SHA-256; a file that is already cached is not.
 * @throws MgrpoError `hub-unavailable`, `hub-refused`, `not-found`, `checkpoint-damaged`, `disk-full` or `storage-unwritable`.
 */
export async function fetchHubFile(
  file: HubModelFile,
  { sha256: hash, bytes }: LargeFile,
  settings: HubSettings,
): Promise<string> {
  const { repository, commit, path } = file;
  const cache = openRepositoryCache(settings.cache, repository);
  const link = join(cache.snapshot(commit), path);
  if (existsSync(link)) return link;
  const blob = cache.blob(hash);
  if (!existsSync(blob)) {
    if (settings.offlineBy) throw notCached(file, settings);
    const fetch = hubFetch(settings, repository);
    await downloadBlob({ repository, commit, file: { path, bytes, hash }, blob, settings, fetch, onBytes() {} });
  }
  await cache.link(commit, path, hash);
  return link;
}

const notCached = (file: HubModelFile, { cache, offlineBy }: HubSettings) =>
  new MgrpoError("hub-unavailable", `${hubFileName(file)} is not in ${cache}, and ${offlineBy} is set: unset it`);
