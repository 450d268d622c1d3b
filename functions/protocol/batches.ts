/**
 * @file Gathers what comes under the same name into batches, one of a name at a time.
 *
 *     an entry    waits for: the batch of its name that is under way, then `milliseconds`      unblocked by: `complete`, or their end
 */
import { setTimeout } from "node:timers/promises";

export interface Batches<V, R> {
  /** The first entry of a batch gets its result; the others wait for it too. An entry that is there already stays. */
  add(name: string, key: number, value: V): Promise<R | undefined>;
  /** Entries of the batch that is being gathered. */
  size(name: string): number;
  /** No other entry is to come: handle it now. */
  complete(name: string): void;
}

interface Batch<V> {
  readonly entries: Map<number, V>;
  readonly handled: Promise<unknown>;
  complete(): void;
}

export function openBatches<V, R>(
  handle: (name: string, entries: Map<number, V>) => Promise<R>,
  milliseconds: number,
): Batches<V, R> {
  const next = new Map<string, Batch<V>>();
  const last = new Map<string, Promise<unknown>>();

  function begin(name: string, entries: Map<number, V>): Promise<R> {
    const { gathered, complete } = gathering(milliseconds);
    const handled = Promise.allSettled([gathered, last.get(name)]).then(() => {
      next.delete(name);
      return handle(name, entries);
    });
    next.set(name, { entries, handled, complete });
    last.set(name, handled);
    return handled.finally(() => {
      if (last.get(name) === handled) last.delete(name);
    });
  }

  return {
    async add(name, key, value) {
      const batch = next.get(name);
      if (!batch) return begin(name, new Map([[key, value]]));
      if (!batch.entries.has(key)) batch.entries.set(key, value);
      await batch.handled;
      return undefined;
    },
    size: (name) => next.get(name)?.entries.size ?? 0,
    complete: (name) => next.get(name)?.complete(),
  };
}

function gathering(milliseconds: number): { readonly gathered: Promise<void>; complete(): void } {
  const wait = new AbortController();
  const gathered = setTimeout(milliseconds, undefined, { signal: wait.signal }).catch(() => {});
  return { gathered, complete: () => wait.abort() };
}
