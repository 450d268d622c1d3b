/** @file Bounded concurrency. */

/** Results in order, at most `width` at a time. The first failure rejects; items that have not started by then are skipped. */
export async function inParallel<T, R>(
  items: readonly T[],
  width: number,
  work: (item: T, index: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const pending = items.entries();
  let hasFailed = false;
  // The lanes share one iterator, so each item runs once.
  const lane = async () => {
    for (const [i, item] of pending) {
      if (hasFailed) return;
      results[i] = await work(item, i).catch((error: unknown) => {
        hasFailed = true;
        throw error;
      });
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane));
  return results;
}
