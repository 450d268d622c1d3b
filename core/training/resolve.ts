/**
 * @file From a recipe's recommendation to the one config of a run: the recipe's config for the arm, the arm's own settings, then
 * `--set path=value` in the order given. Nothing is guessed: an unknown key is refused, and a value that is not JSON is text.
 */
import { type Arm, RunConfig, type RunConfigInput } from "../contracts/config.ts";
import { parse } from "../contracts/parse.ts";
import { MgrpoError } from "../errors.ts";

/** What the user set: the value at a path of the config such as `agents.main.model`, unchecked; undefined where nothing is set. */
export type Chosen = (path: string) => unknown;

type AdvisedConfig = Omit<RunConfigInput, "run" | "recipe" | "arm">;

/** What a recipe recommends. */
interface Advice {
  readonly name: string;
  readonly config: AdvisedConfig | ((arm: Arm, chosen: Chosen) => AdvisedConfig);
}

export interface RunChoice {
  readonly run: string;
  readonly seed: number;
  readonly arm: Arm;
  /** `a.b=c`: path in the config, and its value. */
  readonly set?: readonly string[];
  /** What functions and workers find the recipe by; its name unless it is a folder of the user's. */
  readonly recipe?: string;
}

/** The resolved config: every default filled in. Refusals are `config-invalid`. */
export function resolveConfig(
  recipe: Advice,
  { run, seed, arm, set = [], recipe: found = recipe.name }: RunChoice,
): RunConfig {
  const recommended = typeof recipe.config === "function" ? recipe.config(arm, chosenBy(set)) : recipe.config;
  const advised: RunConfigInput = { ...recommended, run, seed, arm, recipe: found };
  const chosen = withSettings(advised, [...settingsOf(arm, advised), ...set]);
  return parse(RunConfig, chosen, `config of run '${run}'`, "config-invalid");
}

export function chosenBy(set: readonly string[]): Chosen {
  const chosen = withSettings({}, set);
  return (path) => valueAt(chosen, path);
}

/** What stands at a path such as `agents.main.model`; undefined where nothing does. */
export function valueAt(value: object, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>((inner, key) => (isRecord(inner) && Object.hasOwn(inner, key) ? inner[key] : undefined), value);
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  value !== null && typeof value === "object";

/** What an arm sets in the recipe's config. The team of `single-agent` is the recipe's own. */
function settingsOf(arm: Arm, { main = "main", agents }: RunConfigInput): string[] {
  const names = Object.keys(agents);
  switch (arm) {
    case "mgrpo":
      return [];
    case "main-only":
      return names.filter((name) => name !== main).map((name) => `agents.${name}.trained=false`);
    case "single-agent":
      if (names.length === 1) return [];
      throw new MgrpoError(
        "config-invalid",
        `arm single-agent: the recipe gives ${names.length} agents (${names.join(", ")}), not one`,
      );
    case "no-alignment":
      return ["algorithm.alignment.mode=none"];
    case "weighted-alignment":
      return ["algorithm.alignment.mode=weighted"];
    case "shuffled-advantages":
      return ["algorithm.shuffleAdvantages=true"];
  }
}

/** The same value with settings `path=value`, in the order given; not checked. */
export function withSettings(value: object, settings: readonly string[]): object {
  const chosen = structuredClone(value) as Json;
  for (const setting of settings) assign(chosen, setting);
  return chosen;
}

type Json = { [key: string]: unknown } | unknown[];

function assign(config: Json, assignment: string): void {
  const [, path, text] = /^([^=]+)=(.*)$/s.exec(assignment) ?? [];
  if (path === undefined || text === undefined) {
    throw new MgrpoError(
      "config-invalid",
      `--set ${assignment}: write path=value, such as --set algorithm.alignment.mode=none`,
    );
  }
  const keys = path.split(".");
  const last = keys.pop() ?? "";
  let place = config as { [key: string]: unknown };
  for (const key of keys) {
    place[key] ??= {};
    const inner = place[key];
    if (inner === null || typeof inner !== "object" || key === "__proto__") {
      throw new MgrpoError("config-invalid", `--set ${assignment}: '${key}' is a value, it has no '${last}'`);
    }
    place = inner as { [key: string]: unknown };
  }
  place[last] = readValue(text);
}

function readValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
