/**
 * @file The cloud's own store for the process it lives in: the same database, files and events that others reach by HTTP, without a
 * request. The functions run there and make most of a step's calls.
 */

import pLimit from "p-limit";
import type { Store } from "../../core/ports.ts";
import { openClock } from "../aws/clock.ts";
import { translated } from "../aws/errors.ts";
import { openMeter } from "../aws/meter.ts";
import { type DynamoApi, openTable } from "../aws/table.ts";
import { S3Error } from "./s3/errors.ts";
import type { ObjectFiles } from "./s3/object-files.ts";
import { receiveBytes } from "./s3/receive.ts";
import type { DiskSpace } from "./disk-space.ts";
import type { TableServer } from "./table-server.ts";

export interface DirectStoreOptions {
  readonly server: Pick<TableServer, "call">;
  readonly files: ObjectFiles;
  readonly space: DiskSpace;
  readonly names: { readonly table: string; readonly bucket: string };
}

/** A plan inserts dozens of items together: in one go they would keep who calls by HTTP waiting for tens of milliseconds. */
const INSERTS_AT_ONCE = 2;

const endpoint = () => "this process";

export function openDirectStore({ server, files, space, names }: DirectStoreOptions): Store {
  const inTurn = pLimit(INSERTS_AT_ONCE);
  const api = {
    getItem: (input) => server.call("GetItem", input),
    batchGetItem: (input) => server.call("BatchGetItem", input),
    putItem: (input) => inTurn(() => server.call("PutItem", input)),
    updateItem: (input) => server.call("UpdateItem", input),
    query: (input) => server.call("Query", input),
  } as DynamoApi;
  const { bucket } = names;
  const call = <T>(doing: string, work: () => Promise<T>) =>
    translated(doing, endpoint, () => work().catch(asAnswered));

  async function commit(key: string, body: Uint8Array): Promise<boolean> {
    const received = await receiveBytes(body, files.temporary, space);
    try {
      await files.commit(bucket, { key, received, headers: {}, onlyIfAbsent: true });
      return true;
    } catch (error) {
      if (!(error instanceof S3Error) || error.code !== "PreconditionFailed") throw error;
      const there = await files.read(bucket, key);
      return there !== undefined && Buffer.compare(there, body) === 0;
    }
  }

  async function sizeOf(key: string): Promise<number | undefined> {
    const found = await files.open(bucket, key);
    await found?.file.close();
    return found?.facts.size;
  }

  return {
    table: openTable({ api, name: names.table, meter: openMeter(), endpoint }),
    objects: {
      commit: (key, body) => call(`commit ${key}`, () => commit(key, body)),
      get: (key) => call(`read ${key}`, () => files.read(bucket, key)),
      head: (key) => call(`look for ${key}`, () => sizeOf(key)),
      delete: (keys) =>
        call(`delete ${keys.length} objects`, async () => {
          for (const key of keys) await files.delete(bucket, key);
        }),
    },
    // This process's clock is the store's.
    clock: { ...openClock(async () => {}), storeTime: async () => Date.now() },
  };
}

/** The error as a client would see it, with its status. */
function asAnswered(error: unknown): never {
  throw error instanceof S3Error ? Object.assign(error, { $metadata: { httpStatusCode: error.status } }) : error;
}
