/** @file Opens a local run's store to read it: the one of the process that trains it now, or the embedded cloud with no functions. */
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { type RunFolder, readStatus } from "./run-folder.ts";
import { type AwsStore, openCloudStore } from "./session.ts";

export async function withRunStore<T>(folder: RunFolder, read: (store: AwsStore) => Promise<T>): Promise<T> {
  const { state, environment } = readStatus(folder);
  if (state === "running") return using(openCloudStore(environment), read);
  const idle = async () => {};
  const cloud = await startLocalCloud({ directory: folder.cloud, handlers: { objectCreated: idle, clock: idle } });
  try {
    return await using(openCloudStore(cloud.environment), read);
  } finally {
    await cloud.close();
  }
}

async function using<T>(store: AwsStore, read: (store: AwsStore) => Promise<T>): Promise<T> {
  try {
    return await read(store);
  } finally {
    store.close();
  }
}
