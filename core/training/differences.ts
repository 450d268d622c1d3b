/** @file The differences between a requested record and a stored one, one line each. */

export function differences(requested: unknown, stored: unknown, path = ""): string[] {
  if (isRecord(requested) && isRecord(stored)) {
    const keys = [...new Set([...Object.keys(stored), ...Object.keys(requested)])];
    return keys.flatMap((key) => differences(requested[key], stored[key], path === "" ? key : `${path}.${key}`));
  }
  const [a, b] = [JSON.stringify(requested) ?? "nothing", JSON.stringify(stored) ?? "nothing"];
  return a === b ? [] : [`${path}: ${b} (stored), ${a} (requested)`];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
