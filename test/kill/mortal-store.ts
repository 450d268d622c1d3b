/** @file A store that simulates a process crash at the n-th write, before or after it takes effect. From then on every read and write rejects. */
import type { Store, TableChange } from "../../core/ports.ts";

export class Killed extends Error {}

const isHeartbeat = ({ add = [] }: TableChange) => add.some(([[name]]) => name === "counter");

export interface Mortal {
  readonly store: Store;
  /** Writes so far. */
  writes(): number;
  /** Of these, the heartbeats of workers: the longer a run takes, the more there are. */
  heartbeats(): number;
  isDead(): boolean;
}

/** `at`: index of the write at which the process crashes. Undefined: it never does; writes are still counted. */
export function mortalStore(store: Store, at?: number, when: "before" | "after" = "before"): Mortal {
  let writes = 0;
  let heartbeats = 0;
  let dead = false;
  const refuseDead = () => {
    if (dead) throw new Killed("the process has crashed: it cannot use the store");
  };
  const write =
    <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      refuseDead();
      const fatal = writes++ === at;
      if (fatal && when === "before") dead = true;
      refuseDead();
      const result = await call(...args);
      if (fatal) dead = true;
      refuseDead();
      return result;
    };
  const read =
    <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      refuseDead();
      return call(...args);
    };
  const update = write(store.table.update);
  return {
    writes: () => writes,
    heartbeats: () => heartbeats,
    isDead: () => dead,
    store: {
      clock: store.clock,
      objects: {
        commit: write(store.objects.commit),
        get: read(store.objects.get),
        head: read(store.objects.head),
        delete: write(store.objects.delete),
      },
      table: {
        get: read(store.table.get),
        getAll: read(store.table.getAll),
        insert: write(store.table.insert),
        update(change) {
          if (!dead && isHeartbeat(change)) heartbeats += 1;
          return update(change);
        },
        delete: write(store.table.delete),
        query: read(store.table.query),
      },
    },
  };
}
