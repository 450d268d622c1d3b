/** @file Remembers what cannot change any more. Absence and failure are not remembered; the oldest entries are forgotten first. */

export function memo<T>(
  limit: number,
  load: (key: string) => Promise<T | undefined>,
): (key: string) => Promise<T | undefined> {
  const known = new Map<string, Promise<T | undefined>>();
  return (key) => {
    const found = known.get(key);
    if (found) return found;
    const loading = load(key).then(
      (value) => {
        if (value === undefined) known.delete(key);
        return value;
      },
      (error: unknown) => {
        known.delete(key);
        throw error;
      },
    );
    known.set(key, loading);
    for (const oldest of known.keys()) {
      if (known.size <= limit) break;
      known.delete(oldest);
    }
    return loading;
  };
}
