/** @file The settings in which the configs of several runs differ. Pure. */

export interface DifferingSetting {
  readonly path: string;
  /** One per config, as JSON; – if the config lacks the setting. */
  readonly values: readonly string[];
}

/** The settings that are not the same in all configs; the run's name is left out. */
export function differingSettings(configs: readonly unknown[]): DifferingSetting[] {
  const flat = configs.map((config) => new Map(leavesOf(config, "")));
  const paths = [...new Set(flat.flatMap((leaves) => [...leaves.keys()]))].filter((path) => path !== "run");
  const rows = paths.map((path) => ({ path, values: flat.map((leaves) => leaves.get(path) ?? "–") }));
  return rows.filter(({ values }) => new Set(values).size > 1);
}

function leavesOf(value: unknown, path: string): [string, string][] {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [[path, JSON.stringify(value)]];
  return Object.entries(value).flatMap(([key, inner]) => leavesOf(inner, path === "" ? key : `${path}.${key}`));
}
