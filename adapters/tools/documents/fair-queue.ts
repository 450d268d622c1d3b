/** @file A queue in which callers take turns: one item each, in the order of their first item. Each caller's own items stay in order. */

export class FairQueue<T> {
  readonly #waiting = new Map<string, T[]>();

  add(caller: string, item: T): void {
    const items = this.#waiting.get(caller);
    if (items) items.push(item);
    else this.#waiting.set(caller, [item]);
  }

  /** The next item. Its caller moves behind all others. */
  take(): T | undefined {
    const [first] = this.#waiting;
    if (!first) return undefined;
    const [caller, items] = first;
    const item = items.shift();
    this.#waiting.delete(caller);
    if (items.length > 0) this.#waiting.set(caller, items);
    return item;
  }

  clear(): T[] {
    const items = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    return items;
  }
}
