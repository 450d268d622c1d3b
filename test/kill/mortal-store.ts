/** @file A store that kills its user at the n-th write, before or after the write is done. A dead user never writes again. */
import type { Store } from "../../core/ports.ts";

export class Killed extends Error {}

export interface Mortal {
  readonly store: Store;
  /** Writes so far. */
  writes(): number;
  isDead(): boolean;
}

/** `at`: index of the fatal write; undefined: immortal, but counted. */
export function mortalStore(store: Store, at?: number, when: "before" | "after" = "before"): Mortal {
  let writes = 0;
  let dead = false;
  const refuseDead = () => {
    if (dead) throw new Killed("dead");
  };
  const mortal =
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
  const reading =
    <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      refuseDead();
      return call(...args);
    };
  return {
    writes: () => writes,
    isDead: () => dead,
    store: {
      clock: store.clock,
      objects: {
        commit: mortal(store.objects.commit),
        get: reading(store.objects.get),
        head: reading(store.objects.head),
        delete: mortal(store.objects.delete),
      },
      table: {
        get: reading(store.table.get),
        getAll: reading(store.table.getAll),
        insert: mortal(store.table.insert),
        update: mortal(store.table.update),
        query: reading(store.table.query),
      },
    },
  };
}
