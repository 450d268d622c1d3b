/** @file The store of one simulated process: the real adapters on an in-memory table and bucket, with latency. */
import type { S3Client } from "@aws-sdk/client-s3";
import { openClock } from "../../../adapters/aws/clock.ts";
import { openObjectStore } from "../../../adapters/aws/object-store.ts";
import { type DynamoApi, openTable } from "../../../adapters/aws/table.ts";
import type { Store } from "../../../core/ports.ts";
import type { Random } from "../../../core/random.ts";
import { MAX_IN_FLIGHT, SECONDS } from "../assumptions.ts";
import type { Meter } from "../meter.ts";
import type { MemoryBucket } from "./bucket.ts";
import type { MemoryTable } from "./dynamo.ts";

export interface Cloud {
  readonly table: MemoryTable;
  readonly bucket: MemoryBucket;
  readonly meter: Meter;
  readonly random: Random;
}

export interface StoreClient {
  /** Its name in the meter. */
  readonly name: string;
  /** CPU time per request, on its single processor. */
  readonly cpuSeconds?: number;
  /** False: it was killed, and its requests are never answered. */
  alive?(): boolean;
}

export function openSimulatedStore(
  { table, bucket, meter, random }: Cloud,
  { name, cpuSeconds = 0, alive = () => true }: StoreClient,
): Store {
  const endpoint = () => "the simulation";
  const processor = semaphore(1);
  /** Each service has its own connections. */
  const service = () => {
    const enter = semaphore(MAX_IN_FLIGHT);
    return <T>(meanSeconds: number, call: () => Promise<T>): Promise<T> =>
      enter(async () => {
        if (cpuSeconds > 0) await processor(() => pause(cpuSeconds));
        await pause(jitter(meanSeconds, random));
        if (!alive()) return new Promise<never>(() => {});
        return call().finally(() => clock.sawDate(new Date(Date.now()).toUTCString()));
      });
  };

  const dynamo = service();
  const direct = table.api((use) => meter.tableUsed(name, use));
  const api: DynamoApi = {
    getItem: (input) => dynamo(SECONDS.dynamo, () => direct.getItem(input)),
    batchGetItem: (input) => dynamo(SECONDS.dynamo, () => direct.batchGetItem(input)),
    putItem: (input) => dynamo(SECONDS.dynamo, () => direct.putItem(input)),
    updateItem: (input) => dynamo(SECONDS.dynamo, () => direct.updateItem(input)),
    deleteItem: (input) => dynamo(SECONDS.dynamo, () => direct.deleteItem(input)),
    query: (input) => dynamo(SECONDS.dynamo, () => direct.query(input)),
  };
  const s3 = service();
  const send = (command: Parameters<S3Client["send"]>[0]) => {
    const isRead = /^(Get|Head)/.test(command.constructor.name);
    return s3(isRead ? SECONDS.s3Read : SECONDS.s3Write, () =>
      bucket.send(command, (use) => meter.bucketUsed(name, use)),
    );
  };
  const records = openTable({ api, name: "simulated", endpoint });
  // There is no such item: any response, even an empty one, gives the clock the date (`sawDate`, above).
  const clock = openClock(() => records.get({ pk: "CLOCK", sk: "CLOCK" }));
  const objects = openObjectStore({
    // All that the adapter uses of a client, except for multipart uploads.
    s3: { send, middlewareStack: { add() {} } } as unknown as S3Client,
    bucket: "simulated",
    endpoint,
  });
  return { table: records, objects, clock };
}

export const pause = (seconds: number) => new Promise<void>((resolve) => setTimeout(resolve, seconds * 1000));

/** Uniform between 0.5 and 1.5 times the mean. */
export const jitter = (mean: number, random: Random) => mean * (0.5 + random.uniform());

/** Admits `room` callers at once; the others wait in order. */
function semaphore(room: number) {
  const waiting: (() => void)[] = [];
  let inside = 0;
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (inside >= room) await new Promise<void>((enter) => waiting.push(enter));
    else inside += 1;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else inside -= 1;
    }
  };
}
