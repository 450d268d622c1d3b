/** @file A local cloud in a directory of its own, and the AWS store on it, for tests. */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { type LocalCloudOptions, startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { setEnvironment } from "./environment.ts";

export const freshDirectory = () => mkdtemp(join(tmpdir(), "mgrpo-cloud-"));

/** Sets this process's AWS variables until it is closed: one cloud at a time. */
export async function openLocalStore(options: Partial<LocalCloudOptions> = {}) {
  const directory = options.directory ?? (await freshDirectory());
  const handlers = { objectCreated: async () => {}, tick: async () => {} };
  const cloud = await startLocalCloud({ directory, handlers, tickSeconds: 0, ...options });
  const restore = setEnvironment(cloud.environment);
  const store = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
  return {
    ...store,
    cloud,
    directory,
    async close() {
      restore();
      store.close();
      await cloud.close();
    },
  };
}
