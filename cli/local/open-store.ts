/**
 * @file Opens a local run's store for reading: through the process that trains it, else through an embedded cloud without functions. While
 * that process starts or ends, both may fail, so a read retries. Only one cloud can have a run's folder open at a time, so concurrent
 * reads share one:
 *
 *     first read ──> waits until the previous cloud is closed ──> opened ──> last read ends ──> closed
 */
import pRetry from "p-retry";
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { isMgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import { openCloudStore } from "./embedded-cloud.ts";
import { type RunFolder, readStatus, refuseWithoutStore } from "./run-folder.ts";

/** How long a read retries while a process starts or ends. */
const HANDOVER_SECONDS = 3;

/** @param read is repeated while the store cannot be reached, for at most `seconds`. */
export function withRunStore<T>(
  folder: RunFolder,
  read: (store: Store) => Promise<T>,
  seconds = HANDOVER_SECONDS,
): Promise<T> {
  return pRetry(() => withOpenStore(folder, read), {
    retries: Number.POSITIVE_INFINITY,
    factor: 1,
    minTimeout: 100,
    maxRetryTime: seconds * 1000,
    shouldRetry: ({ error }) => isMgrpoError(error, "store-unreachable"),
  });
}

async function withOpenStore<T>(folder: RunFolder, read: (store: Store) => Promise<T>): Promise<T> {
  const status = readStatus(folder);
  const { state, environment } = status;
  if (state !== "running") {
    refuseWithoutStore(folder, status);
    return withIdleStore(folder.cloud, read);
  }
  const store = openCloudStore(environment);
  return read(store).finally(() => store.close());
}

interface SharedCloud {
  readers: number;
  readonly opened: ReturnType<typeof startLocalCloud>;
}

/** By directory: the clouds that reads are using, and the closing of those that no read uses. */
const openClouds = new Map<string, SharedCloud>();
const closing = new Map<string, Promise<void>>();

async function withIdleStore<T>(directory: string, read: (store: Store) => Promise<T>): Promise<T> {
  const shared = openClouds.get(directory) ?? { readers: 0, opened: openIdle(directory) };
  openClouds.set(directory, shared);
  shared.readers += 1;
  try {
    return await read((await shared.opened).direct);
  } finally {
    shared.readers -= 1;
    if (shared.readers === 0) await closeIdle(directory, shared);
  }
}

async function openIdle(directory: string): ReturnType<typeof startLocalCloud> {
  await closing.get(directory);
  return startLocalCloud({ directory });
}

/** If the cloud did not open, its readers have rejected, and there is nothing to close. */
async function closeIdle(directory: string, { opened }: SharedCloud): Promise<void> {
  openClouds.delete(directory);
  const closed = opened.then(
    (cloud) => cloud.close(),
    () => {},
  );
  closing.set(directory, closed);
  await closed.finally(() => closing.get(directory) === closed && closing.delete(directory));
}
