/** @file Opens a local run's store for reading: through the process that trains it, else through an embedded cloud without functions. */
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import type { Store } from "../../core/ports.ts";
import { openCloudStore } from "./embedded-cloud.ts";
import { type RunFolder, readStatus } from "./run-folder.ts";

export async function withRunStore<T>(folder: RunFolder, read: (store: Store) => Promise<T>): Promise<T> {
  const { state, environment } = readStatus(folder);
  if (state === "running") {
    const store = openCloudStore(environment);
    return read(store).finally(() => store.close());
  }
  const idle = async () => {};
  const cloud = await startLocalCloud({ directory: folder.cloud, handlers: { objectCreated: idle, clock: idle } });
  return read(cloud.direct).finally(() => cloud.close());
}
