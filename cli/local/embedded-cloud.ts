/**
 * @file The embedded cloud of a local run, open for one session: DynamoDB and S3 on 127.0.0.1, and the functions, called in this
 * process when their events come. One process at a time may have it open.
 */
import { appendFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { type LocalCloudOptions, startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { tablePrefixes } from "../../core/contracts/keys.ts";
import type { CloudHandlers, Store, Table } from "../../core/ports.ts";
import { cloudHandlers, composeFunctions } from "../../functions/compose.ts";
import { createBusyMeter } from "../../gpu-workers/busy.ts";
import type { StoreWrites } from "../run-report.ts";

type Functions = ReturnType<typeof composeFunctions>;
export type AwsStore = ReturnType<typeof openAwsStore>;

export interface EmbeddedCloud {
  readonly store: Store;
  readonly functions: Functions;
  /** What workers need to reach the cloud. */
  readonly environment: Readonly<Record<string, string>>;
  /** Seconds since the last call in which at least one function was at work. */
  takeScoringSeconds(): number;
  /** Registers what is called whenever a function moved RUN or a STEP. */
  onMoved(listener: () => void): void;
  /** DynamoDB writes of all processes in this session. */
  writes(): StoreWrites;
  close(): Promise<void>;
}

/** Where a cloud for other machines listens. */
export type CloudAddress = Required<Pick<LocalCloudOptions, "host" | "ports">>;

/**
 * Opens the cloud that lies in a directory; its functions' failures are logged to a file. With a place it is a cloud for others, and
 * verifies their signatures. Without, its callers are this user's own processes on 127.0.0.1: whoever could read their key id there
 * could read the secret beside it, so a signature would prove nothing, and each costs this process time that functions need.
 */
export async function openEmbeddedCloud(directory: string, log: string, place?: CloudAddress): Promise<EmbeddedCloud> {
  // Checkpoints pass through this process: by V8's own measure their buffers would have the whole heap marked anew in every step, for some
  // 100 ms, while everybody waits for the answer. Now it may triple first.
  setFlagsFromString("--heap-growing-percent=200");
  const busy = createBusyMeter();
  const ready = deferred<CloudHandlers>();
  const cloud = await startLocalCloud({
    directory,
    ...(place ?? { verifySignatures: false }),
    handlers: {
      objectCreated: async (event) => {
        const handlers = await ready.promise;
        await busy.training(() => handlers.objectCreated(event));
      },
      clock: async () => {
        const handlers = await ready.promise;
        await busy.training(() => handlers.clock());
      },
    },
  });
  const store = cloud.direct;
  let moved = () => {};
  const table = announcing(store.table, () => moved());
  const functions = composeFunctions({ ...store, table }, { patient: true });
  ready.resolve(cloudHandlers(functions, (line) => appendFileSync(log, `${line}\n`)));
  return {
    store,
    functions,
    environment: cloud.environment,
    onMoved(listener) {
      moved = listener;
    },
    takeScoringSeconds: () => busy.takeSeconds().training,
    writes: () => cloud.writes(),
    close: () => cloud.close(),
  };
}

/** The store of a cloud that runs already, by HTTP. The SDK takes its endpoints and keys from the environment. */
export function openCloudStore(environment: Readonly<Record<string, string>>): AwsStore {
  Object.assign(process.env, environment);
  return openAwsStore({ table: environment["MGRPO_TABLE"] ?? "", bucket: environment["MGRPO_BUCKET"] ?? "" });
}

/** The same table; says when a write of it moved RUN or a STEP: not when it closed one, for then RUN moves next. */
function announcing(table: Table, moved: () => void): Table {
  return {
    get: (key) => table.get(key),
    getAll: (keys) => table.getAll(keys),
    query: (pk, prefix) => table.query(pk, prefix),
    insert: (key, item) => table.insert(key, item),
    async update(change) {
      const result = await table.update(change);
      const { sk } = change.key;
      const isNews = sk === "RUN" || (sk.startsWith(tablePrefixes.steps) && result.item?.["state"] !== "closed");
      if (result.applied && isNews) moved();
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
