/** @file The differences between two records, one line each: why a second start of a run is refused. */

export function differences(asked: unknown, stored: unknown, path = ""): string[] {
  if (isRecord(asked) && isRecord(stored)) {
    const keys = [...new Set([...Object.keys(stored), ...Object.keys(asked)])];
    return keys.flatMap((key) => differences(asked[key], stored[key], path === "" ? key : `${path}.${key}`));
  }
  const [a, b] = [JSON.stringify(asked) ?? "nothing", JSON.stringify(stored) ?? "nothing"];
  return a === b ? [] : [`${path}: ${b} there, ${a} asked for`];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
