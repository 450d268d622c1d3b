/** @file A model of the Hugging Face Hub as a folder on this machine: resolves its commit, then takes its files from the cache or downloads them into it. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type HubModel, hubModelName, isCommit } from "../../../core/contracts/hub-model.ts";
import { isMgrpoError, MgrpoError } from "../../../core/errors.ts";
import { withinLimit } from "../../response-limit.ts";
import { isCompleteSnapshot, openRepositoryCache, shardsOf, WEIGHTS_FILE, WEIGHTS_INDEX } from "./cache.ts";
import { downloadBlob, type HubFile } from "./download.ts";
import { hubFetch, listFetch, readAnswer } from "./fetch.ts";
import type { HubSettings } from "./settings.ts";

export interface DownloadProgress {
  readonly model: string;
  readonly file: string;
  /** Bytes on disk so far, out of `totalBytes`. */
  readonly bytes: number;
  /** Grows once the small files show which weights are needed. */
  readonly totalBytes: number;
}

export interface HubReporter {
  progress(progress: DownloadProgress): void;
  /** One line for the user, such as that the cache is used because the hub is unavailable. */
  note(message: string): void;
}

/**
 * The same model with its revision as a commit. A branch or tag resolves to the commit in the cache if requests are forbidden (`offlineBy`),
 * or, with a note, if the hub is unavailable.
 * @throws MgrpoError `not-found`, `hub-refused`, `hub-unavailable`, `disk-full` or `storage-unwritable`.
 */
export async function resolveCommit(model: HubModel, settings: HubSettings, report: HubReporter): Promise<HubModel> {
  const { repository, revision } = model;
  if (isCommit(revision)) return model;
  const cache = openRepositoryCache(settings.cache, repository);
  const known = await cache.readRef(revision);
  if (settings.offlineBy) {
    if (known !== undefined) return { repository, revision: known };
    throw notCached(model, settings);
  }
  const { token, url } = settings;
  const request = { name: repository, revision, hubUrl: url, fetch: withinLimit(hubFetch(settings, repository)) };
  const { modelInfo } = await import("@huggingface/hub");
  try {
    const sha = await readAnswer(settings, async () => {
      const info = await modelInfo({ ...request, additionalFields: ["sha"], ...(token && { accessToken: token }) });
      if (!isCommit(info.sha)) throw new TypeError("no commit");
      return info.sha;
    });
    // A cache that is already right need not be writable.
    if (sha !== known) await cache.writeRef(revision, sha);
    return { repository, revision: sha };
  } catch (error) {
    if (!isMgrpoError(error, "hub-unavailable") || known === undefined) throw error;
    report.note(`${error.message}; ${hubModelName(model)} is taken from the cache, commit ${known.slice(0, 12)}`);
    return { repository, revision: known };
  }
}

/**
 * The folder with the model's files: JSON, text, templates, and weights as safetensors. Without `withWeights`, no weights are downloaded.
 * @throws MgrpoError as `resolveCommit` does, or `checkpoint-damaged`.
 */
export async function fetchModel(
  model: HubModel,
  settings: HubSettings,
  report: HubReporter,
  withWeights = true,
): Promise<string> {
  const { repository, revision: commit } = await resolveCommit(model, settings, report);
  const cache = openRepositoryCache(settings.cache, repository);
  const folder = cache.snapshot(commit);
  if (await isCompleteSnapshot(folder, withWeights)) return folder;
  if (settings.offlineBy) throw notCached(model, settings);
  const fetch = hubFetch(settings, repository);
  const listed = await filesOf(repository, commit, settings, listFetch(settings, withinLimit(fetch)));
  const small = listed.filter(({ path }) => !path.endsWith(".safetensors"));
  let done = 0;
  let totalBytes = sum(small);
  const fetchAll = async (files: readonly HubFile[]) => {
    for (const file of files) {
      const blob = cache.blob(file.hash);
      const onBytes = (bytes: number) =>
        report.progress({ model: hubModelName(model), file: file.path, bytes: done + bytes, totalBytes });
      if (!existsSync(blob)) await downloadBlob({ repository, commit, file, blob, settings, fetch, onBytes });
      await cache.link(commit, file.path, file.hash);
      done += file.bytes;
    }
  };
  await fetchAll(small);
  if (!withWeights) return folder;
  const weights = await weightsOf(model, folder, listed);
  totalBytes += sum(weights);
  await fetchAll(weights);
  return folder;
}

const sum = (files: readonly HubFile[]): number => files.reduce((total, { bytes }) => total + bytes, 0);

/** SHA-256, or git's SHA-1. Names a file of the cache, so it must not be a path that a mirror chooses. */
const BLOB_NAME = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/** Files of the repository's root that a model may need. */
async function filesOf(
  repository: string,
  commit: string,
  settings: HubSettings,
  fetch: typeof globalThis.fetch,
): Promise<HubFile[]> {
  const { url, token } = settings;
  const request = { repo: { type: "model", name: repository } as const, revision: commit, hubUrl: url, fetch };
  const { listFiles } = await import("@huggingface/hub");
  const entries = listFiles({ ...request, ...(token && { accessToken: token }) });
  return readAnswer(settings, async () => {
    const files: HubFile[] = [];
    for await (const entry of entries) {
      if (entry.type !== "file" || !/^[^/\\]+\.(json|safetensors|jinja|txt)$/.test(entry.path)) continue;
      const hash = entry.lfs?.oid ?? entry.oid ?? "";
      if (!BLOB_NAME.test(hash)) throw new TypeError(`no hash of ${entry.path}`);
      files.push({ path: entry.path, bytes: entry.size, hash });
    }
    return files;
  });
}

/** The weights that transformers loads: the model's single file if there is one, else its shards; and an adapter's. Other copies are left out. */
async function weightsOf(model: HubModel, folder: string, listed: readonly HubFile[]): Promise<HubFile[]> {
  const index = join(folder, WEIGHTS_INDEX);
  const isSharded = listed.every(({ path }) => path !== WEIGHTS_FILE) && existsSync(index);
  const names = isSharded ? shardsOf(await readFile(index)) : [WEIGHTS_FILE];
  const missing = names.find((name) => listed.every(({ path }) => path !== name));
  if (isSharded && missing !== undefined)
    throw new MgrpoError(
      "checkpoint-damaged",
      `${hubModelName(model)}: its ${WEIGHTS_INDEX} names ${missing}, which it does not have: name another revision or model`,
    );
  const wanted = new Set([...names, "adapter_model.safetensors"]);
  const weights = listed.filter(({ path }) => wanted.has(path));
  if (weights.length > 0) return weights;
  throw new MgrpoError(
    "checkpoint-damaged",
    `${hubModelName(model)} has no weights as safetensors: name a model that has them, or convert it with transformers' save_pretrained`,
  );
}

const notCached = (model: HubModel, { cache, offlineBy }: HubSettings) =>
  new MgrpoError(
    "hub-unavailable",
    `${hubModelName(model)} is not complete in ${cache}, and ${offlineBy} is set: unset it, or name a folder that has the model`,
  );
