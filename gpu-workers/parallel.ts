/** @file Bounded concurrency. */

/**
 * Results in order, at most `width` at a time. The first failure rejects, once the items that have started have ended: it aborts their
 * signal, and the others are skipped.
 */
export async function inParallel<T, R>(
  items: readonly T[],
  width: number,
  work: (item: T, index: number, failed: AbortSignal) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const pending = items.entries();
  const failed = new AbortController();
  // The lanes share one iterator, so each item runs once.
  const lane = async () => {
    for (const [i, item] of pending) {
      if (failed.signal.aborted) return;
      results[i] = await work(item, i, failed.signal).catch((error: unknown) => {
        failed.abort();
        throw error;
      });
    }
  };
  const lanes = Array.from({ length: Math.min(width, items.length) }, lane);
  await Promise.all(lanes).finally(() => Promise.allSettled(lanes));
  return results;
}
