/** @file A local cloud in a directory of its own, and the AWS store on it, for tests. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { type LocalCloudOptions, startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { setEnvironment } from "./environment.ts";

const makeDirectory = () => mkdtemp(join(tmpdir(), "mgrpo-cloud-"));
const removeDirectory = (directory: string) => rm(directory, { recursive: true, force: true });

/** A directory that is removed when the current test finishes. */
export async function freshDirectory(): Promise<string> {
  const directory = await makeDirectory();
  onTestFinished(() => removeDirectory(directory));
  return directory;
}

/**
 * Until `close`, this process's environment variables name the cloud, so only one may be open at a time. Without `directory`, the cloud gets
 * a new one, which `close` removes.
 */
export async function openLocalStore(options: Partial<LocalCloudOptions> = {}) {
  const directory = options.directory ?? (await makeDirectory());
  const removeOwn = async () => {
    if (options.directory === undefined) await removeDirectory(directory);
  };
  const handlers = { objectCreated: async () => {}, tick: async () => {} };
  const cloud = await startLocalCloud({ directory, handlers, tickSeconds: 0, ...options }).catch(
    async (error: unknown) => {
      await removeOwn();
      throw error;
    },
  );
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
      await removeOwn();
    },
  };
}
