/**
 * @file The embedded cloud: DynamoDB and S3, on 127.0.0.1 unless it serves other machines, and the functions, which this process calls on
 * events and scheduled ticks. Only one process at a time can open it.
 */
import { appendFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { type AwsStore, openAwsStore } from "../../adapters/aws/store.ts";
import { type LocalCloudOptions, startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { tablePrefixes } from "../../core/contracts/keys.ts";
import type { StoreWrites } from "../../core/contracts/store-writes.ts";
import type { CloudHandlers, Store, Table } from "../../core/ports.ts";
import { composeFunctions } from "../../functions/compose.ts";
import type { Functions } from "../../functions/functions.ts";
import { cloudHandlers } from "../../functions/handler.ts";
import { createBusyTimer } from "../../gpu-workers/busy.ts";
import { isolatedRewards } from "../../recipes/isolated-rewards.ts";

export interface EmbeddedCloud {
  readonly store: Store;
  readonly functions: Functions;
  /** What workers need to reach it: the standard AWS variables, MGRPO_TABLE and MGRPO_BUCKET. */
  readonly environment: Readonly<Record<string, string>>;
  /** Seconds in which at least one function ran on an event or a scheduled tick, since this was last called. */
  takeScoringSeconds(): number;
  /** Registers the only listener, which is called whenever a function updates RUN, or a STEP without closing it. */
  onAdvance(listener: () => void): void;
  /** DynamoDB writes of all processes since the cloud was opened. */
  writes(): StoreWrites;
  close(): Promise<void>;
}

const SERVED = { code: "store-unreachable", instead: "serve another folder with --dir" } as const;

/** Where a cloud listens for other machines. */
export type CloudAddress = Required<Pick<LocalCloudOptions, "host" | "ports">>;

/**
 * Opens the cloud in a directory; failures of its functions are logged to a file. With an address it serves other machines and verifies
 * their signatures. Without one its callers are this user's own processes on 127.0.0.1. Anyone who can read their key id can also read the
 * secret beside it, so a signature would prove nothing, and verifying it takes time that functions need.
 */
export async function openEmbeddedCloud(
  directory: string,
  log: string,
  address?: CloudAddress,
): Promise<EmbeddedCloud> {
  // The buffers of checkpoints pass through this process. By default they make V8 mark the whole heap in every step, for about 100 ms
  // during which all workers wait. With this flag the heap can triple first.
  setFlagsFromString("--heap-growing-percent=200");
  const scoring = createBusyTimer();
  const ready = deferred<CloudHandlers>();
  const cloud = await startLocalCloud({
    directory,
    ...(address ? { ...address, inUse: SERVED } : { verifySignatures: false }),
    handlers: {
      objectCreated: async (event) => {
        const handlers = await ready.promise;
        await scoring.during(() => handlers.objectCreated(event));
      },
      tick: async () => {
        const handlers = await ready.promise;
        await scoring.during(() => handlers.tick());
      },
    },
  });
  const store = cloud.direct;
  let advanced = () => {};
  const table = notifying(store.table, () => advanced());
  const functions = composeFunctions(
    { ...store, table },
    {
      rewardsOf: isolatedRewards(process.env),
      isLongLived: true,
    },
  );
  ready.resolve(cloudHandlers(functions, (line) => appendFileSync(log, `${line}\n`)));
  return {
    store,
    functions,
    environment: cloud.environment,
    onAdvance(listener) {
      advanced = listener;
    },
    takeScoringSeconds: () => scoring.takeSeconds(),
    writes: () => cloud.writes(),
    async close() {
      await functions.stop();
      await cloud.close();
    },
  };
}

/** Opens the store of a running cloud over HTTP. This process's own environment stays as it is: it may name another store. */
export function openCloudStore(environment: Readonly<Record<string, string>>): AwsStore {
  const { MGRPO_TABLE: table = "", MGRPO_BUCKET: bucket = "" } = environment;
  return openAwsStore({ table, bucket }, environment);
}

/** Calls `advanced` when an update of RUN or a STEP is applied. Closing a STEP does not count, since RUN advances right after. */
function notifying(table: Table, advanced: () => void): Table {
  return {
    ...table,
    async update(change) {
      const result = await table.update(change);
      const { sk } = change.key;
      const advances = sk === "RUN" || (sk.startsWith(tablePrefixes.steps) && result.item?.["state"] !== "closed");
      if (result.applied && advances) advanced();
      return result;
    },
  };
}

function deferred<T>() {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
