/** @file A bounded cache for values that no longer change. It never keeps a missing value or failure; the oldest entry is evicted first. */

export function memo<T>(
  limit: number,
  load: (key: string) => Promise<T | undefined>,
): (key: string) => Promise<T | undefined> {
  const entries = new Map<string, Promise<T | undefined>>();
  return (key) => {
    const cached = entries.get(key);
    if (cached) return cached;
    const loading = load(key).then(
      (value) => {
        if (value === undefined) entries.delete(key);
        return value;
      },
      (error: unknown) => {
        entries.delete(key);
        throw error;
      },
    );
    entries.set(key, loading);
    evictOldest(entries, limit);
    return loading;
  };
}

/** Deletes entries in insertion order until `limit` are left. */
export function evictOldest(entries: Map<string, unknown>, limit: number): void {
  for (const oldest of entries.keys()) {
    if (entries.size <= limit) return;
    entries.delete(oldest);
  }
}
