/** @file Bounded concurrency. */

/**
 * Runs `work` on the items, at most `width` at a time, and resolves to the results in the order of the items. The first failure aborts the
 * signal of the items in progress and skips those that have not started; the promise rejects with it once all that have started have ended.
 */
export async function inParallel<T, R>(
  items: readonly T[],
  width: number,
  work: (item: T, index: number, failed: AbortSignal) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const pending = items.entries();
  const failed = new AbortController();
  // The loops share one iterator, so each item runs once.
  const loop = async () => {
    for (const [i, item] of pending) {
      if (failed.signal.aborted) return;
      results[i] = await work(item, i, failed.signal).catch((error: unknown) => {
        failed.abort();
        throw error;
      });
    }
  };
  const loops = Array.from({ length: Math.min(width, items.length) }, loop);
  await Promise.all(loops).finally(() => Promise.allSettled(loops));
  return results;
}
