/**
 * @file The local cloud's store for code in the same process: direct calls to the database, files and events that other processes reach
 * over HTTP. The functions run in this process and make most of a step's calls.
 */
import pLimit from "p-limit";
import type { ObjectStore, Store } from "../../core/ports.ts";
import { openClock } from "../aws/clock.ts";
import { translated } from "../aws/errors.ts";
import { type DynamoApi, openTable } from "../aws/table.ts";
import type { DiskSpace } from "./disk-space.ts";
import { S3Error } from "./s3/errors.ts";
import type { ObjectFiles } from "./s3/object-files.ts";
import { receiveBytes } from "./s3/receive.ts";
import { storageFault } from "./storage-faults.ts";
import type { TableServer } from "./table-server.ts";

export interface DirectStoreOptions {
  readonly server: Pick<TableServer, "call">;
  readonly files: ObjectFiles;
  readonly space: DiskSpace;
  readonly names: { readonly table: string; readonly bucket: string };
}

/** Planning a step inserts dozens of items together. Written all at once, they would delay HTTP callers by tens of milliseconds. */
const CONCURRENT_INSERTS = 2;

const endpoint = () => "this process";

export function openDirectStore(options: DirectStoreOptions): Store {
  const { server, names } = options;
  return {
    table: openTable({ api: directApi(server), name: names.table, endpoint }),
    objects: openDirectObjects(options),
    // The store's clock is this process's own.
    clock: { ...openClock(async () => {}), storeTime: async () => Date.now() },
  };
}

function directApi(server: Pick<TableServer, "call">): DynamoApi {
  const limit = pLimit(CONCURRENT_INSERTS);
  // The server returns the API's shapes, whose types only the SDK declares.
  const call = <Output>(operation: string, input: object) => server.call(operation, input) as Promise<Output>;
  return {
    getItem: (input) => call("GetItem", input),
    batchGetItem: (input) => call("BatchGetItem", input),
    putItem: (input) => limit(() => call("PutItem", input)),
    updateItem: (input) => call("UpdateItem", input),
    deleteItem: (input) => call("DeleteItem", input),
    query: (input) => call("Query", input),
  };
}

function openDirectObjects(options: DirectStoreOptions): ObjectStore {
  const { files, names } = options;
  const call = <T>(operation: string, work: () => Promise<T>) =>
    translated(operation, endpoint, () => work().catch(throwAsSdkError));
  return {
    commit: (key, body) => call(`commit ${key}`, () => commit(options, key, body)),
    get: (key) => call(`read ${key}`, () => files.read(names.bucket, key)),
    head: (key) => call(`look for ${key}`, () => sizeOf(options, key)),
    delete: (keys) =>
      call(`delete ${keys.length} objects`, async () => {
        for (const key of keys) await files.delete(names.bucket, key);
      }),
  };
}

async function commit({ files, space, names }: DirectStoreOptions, key: string, body: Uint8Array): Promise<boolean> {
  const received = await receiveBytes(body, files.temporary, space);
  try {
    await files.commit(names.bucket, { key, received, headers: {}, onlyIfAbsent: true });
    return true;
  } catch (error) {
    if (!(error instanceof S3Error) || error.code !== "PreconditionFailed") throw error;
    const stored = await files.read(names.bucket, key);
    return stored !== undefined && Buffer.compare(stored, body) === 0;
  }
}

async function sizeOf({ files, names }: DirectStoreOptions, key: string): Promise<number | undefined> {
  const object = await files.open(names.bucket, key);
  await object?.file.close();
  return object?.metadata.size;
}

/** Adds to an S3Error the HTTP status that a client would see. Translates any other error if it is a fault of the file system. */
function throwAsSdkError(error: unknown): never {
  if (!(error instanceof S3Error)) throw storageFault("the cloud's folder", error);
  throw Object.assign(error, { $metadata: { httpStatusCode: error.status } });
}
