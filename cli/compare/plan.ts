/**
 * @file What a comparison runs: every arm as it is, and with every value of `--vary`, one setting at a time, with every seed. Pure.
 *
 * All arms get the same number of sampled tokens, those of all agents together, frozen ones too: the first arm trains for its steps, and
 * each other one, with the same seed, until it has sampled as much (`sampledTokens`), in at most LONGEST times as many steps.
 * `--tokens` gives the number instead, to the first arm too.
 */
import { Arm, type RunConfig } from "../../core/contracts/config.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Recipe } from "../../core/recipe.ts";
import { differences } from "../../core/training/differences.ts";
import { chosenBy, resolveConfig } from "../../core/training/resolve-config.ts";

/** Steps that an arm may take, in those of the first: a team that falls silent must not go on for ever. */
const LONGEST = 4;

export interface CompareOptions {
  readonly arms: readonly Arm[];
  /** Seeds 1 to this. */
  readonly seeds: number;
  readonly steps?: number;
  readonly tokens?: number;
  readonly jobs: number;
  /** `path=v1,v2`: settings of which every value is tried, all others as they are. */
  readonly vary: readonly string[];
  readonly set: readonly string[];
  /** Names its runs and its folder under results/. */
  readonly name: string;
}

/** One line of the comparison. */
export interface Entry {
  /** `mgrpo`, or `mgrpo, algorithm.alignment.d=2`. */
  readonly label: string;
  readonly arm: Arm;
  /** `path=value` in which it differs from the arm as it is. */
  readonly varied?: string;
  /** The same, fit for a run's name. */
  readonly slug?: string;
}

export interface PlannedRun {
  readonly entry: Entry;
  readonly config: RunConfig;
  /** `--set` assignments that lead from the recipe to this config. */
  readonly set: readonly string[];
}

/** `mgrpo,main-only` as arms, each once. */
export function parseArms(text: string): Arm[] {
  const names = text.split(",").map((name) => name.trim());
  const unknown = names.find((name) => !Arm.safeParse(name).success);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (unknown === undefined && twice === undefined) return names as Arm[];
  const fault = unknown === undefined ? `names '${twice}' twice` : `there is no arm '${unknown}'`;
  throw new MgrpoError("config-invalid", `--arms ${text}: ${fault}; arms are ${Arm.options.join(", ")}`);
}

/** Every arm as it is, and with every value of every varied setting. */
export function entriesOf({ arms, vary }: Pick<CompareOptions, "arms" | "vary">): Entry[] {
  const variations = vary.flatMap(parseVary);
  const slugs = slugsOf(variations);
  return arms.flatMap((arm) => [
    { arm, label: arm },
    ...variations.map((varied, i) => ({ arm, varied, slug: slugs[i] ?? "", label: `${arm}, ${varied}` })),
  ]);
}

/** The run of an entry with a seed. `budget`: what it may sample; undefined for the first arm, which trains for its steps. */
export function planRun(
  { recipe, recipeName, options }: { recipe: Recipe; recipeName: string; options: CompareOptions },
  entry: Entry,
  seed: number,
  budget: number | undefined,
): PlannedRun {
  const { arm, varied } = entry;
  const run = [options.name, arm, ...(entry.slug === undefined ? [] : [entry.slug]), `seed${seed}`].join("-");
  const steps = options.steps === undefined ? [] : [`steps=${options.steps}`];
  const asItIs = [...options.set, ...steps];
  const common = varied === undefined ? asItIs : [...options.set, varied, ...steps];
  refuseOwn(common, varied);
  const resolve = (set: readonly string[]) => resolveConfig(recipe, { run, seed, arm, set, recipe: recipeName });
  if (varied !== undefined && differences(resolve(common), resolve(asItIs)).length === 0) {
    throw new MgrpoError(
      "config-invalid",
      `--vary ${varied}: ${arm} has it anyway, and is run without it too; leave it out`,
    );
  }
  if (budget === undefined) return { entry, config: resolve(common), set: common };
  const longest = LONGEST * resolve(common).steps;
  const set = [...common, `steps=${longest}`, `sampledTokens=${budget}`];
  return { entry, config: resolve(set), set };
}

/** What a comparison sets in each of its runs. */
const OWN = ["run", "seed", "arm", "recipe", "sampledTokens"];

function refuseOwn(set: readonly string[], varied: string | undefined): void {
  const chosen = chosenBy(set);
  const found = OWN.find((path) => chosen(path) !== undefined) ?? (varied?.startsWith("steps=") ? "steps" : undefined);
  if (found === undefined) return;
  const instead = "see --arms, --seeds, --steps and --tokens";
  throw new MgrpoError(
    "config-invalid",
    `${found} is not to be set or varied, the comparison sets it itself: ${instead}`,
  );
}

/** `d=1,2` as `d=1` and `d=2`. Values with commas inside are JSON: `{"format":0.1,"correct":0},{…}`. */
function parseVary(text: string): string[] {
  const [, path, list] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
  if (path === undefined || list === undefined) {
    throw new MgrpoError(
      "config-invalid",
      `--vary ${text}: write path=value,value, such as --vary algorithm.alignment.d=1,2,4`,
    );
  }
  return valuesOf(list).map((value) => `${path}=${value}`);
}

function valuesOf(list: string): string[] {
  try {
    return (JSON.parse(`[${list}]`) as unknown[]).map((value) => JSON.stringify(value));
  } catch {
    return list.split(",").map((value) => value.trim());
  }
}

/**
 * `algorithm.alignment.d=2` as `d-2`: the end of the path, as much of it as tells all apart, and what a name can hold of the value.
 */
function slugsOf(variations: readonly string[]): string[] {
  const depth = Math.max(1, ...variations.map((one) => pathOf(one).length));
  for (let words = 1; words <= depth; words++) {
    const slugs = variations.map((one) => slug(one, words));
    if (new Set(slugs).size === slugs.length) return slugs;
  }
  const longest = variations.map((one) => slug(one, depth));
  const second = variations.find((_, i) => longest.indexOf(longest[i] ?? "") !== i);
  throw new MgrpoError("config-invalid", `--vary ${second}: another one is called the same; leave one of the two out`);
}

const pathOf = (setting: string) => setting.slice(0, setting.indexOf("=")).split(".");

function slug(setting: string, words: number): string {
  const key = pathOf(setting).slice(-words).join("-");
  const value = setting.slice(setting.indexOf("=") + 1);
  const plain = value.replace(/"[^"]*":/g, "").replace(/[^A-Za-z0-9.]+/g, "-");
  return `${key}-${plain}`.replace(/^-+|-+$/g, "").replace(/-+/g, "-");
}
