/**
 * @file Plans a comparison's runs: every arm unchanged, and with every value of `--vary`, one setting at a time; each with every seed.
 * Pure.
 *
 * The runs of a seed have the same token budget, summed over all agents, frozen ones included. The first arm trains for its configured
 * steps, and the tokens that it samples are the budget (`sampledTokens`) of the seed's other runs. Each of these ends after the steps that
 * are in flight when it reaches the budget, or after MAX_STEP_RATIO times its configured steps. `--tokens` sets the budget of all runs, those
 * of the first arm included.
 *
 * Arms take different numbers of steps for the same tokens. So a stage that begins at a step, or an evaluation after a number of steps, would
 * come at a different point of training in each arm. Both therefore come at a share of the run instead: of its tokens or of its steps,
 * whichever share is larger.
 */
import { Arm, type RunConfig } from "../../core/contracts/config.ts";
import { ignoredSettings } from "../../core/contracts/ignored-settings.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Recipe } from "../../core/recipe.ts";
import { differences } from "../../core/training/differences.ts";
import { chosenBy, resolveConfig, valueAt, withSettings } from "../../core/training/resolve-config.ts";
import { didYouMean } from "../terminal/nearest.ts";
import { type Start, startOf, startWithSeed } from "./start.ts";

/** Limit on the steps of a run with a token budget, relative to those configured: a team that stops generating must not train forever. */
const MAX_STEP_RATIO = 4;

const MAX_SEEDS = 1000;

export interface CompareOptions extends Start {
  readonly arms: readonly Arm[];
  readonly seeds: readonly number[];
  readonly steps?: number;
  readonly tokens?: number;
  readonly jobs: number;
  /** `path=v1,v2`: settings to vary, one at a time. */
  readonly vary: readonly string[];
  readonly set: readonly string[];
  /** Prefix of the runs' names, and folder under results/. */
  readonly name: string;
  /** Accept runs from another commit, release, recipe, question set, config or base model. */
  readonly mixed: boolean;
}

/** What a comparison compares: an arm, unchanged or with one varied setting. */
export interface Entry {
  /** `mgrpo`, or `mgrpo, algorithm.alignment.d=2`. */
  readonly label: string;
  readonly arm: Arm;
  /** The varied setting, `path=value`. Absent for the unchanged arm. */
  readonly varied?: string;
  /** The varied setting in a form that fits a run's name. */
  readonly slug?: string;
}

export interface PlannedRun {
  readonly entry: Entry;
  readonly config: RunConfig;
  /** `--set` assignments that turn the recipe's config into this one. */
  readonly set: readonly string[];
}

/** Parses `mgrpo,main-only`. Each arm may appear once. */
export function parseArms(text: string): Arm[] {
  const names = text.split(",").map((name) => name.trim());
  const unknown = names.find((name) => !Arm.safeParse(name).success);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (unknown === undefined && twice === undefined) return names as Arm[];
  const fault = unknown === undefined ? `names '${twice}' twice` : `there is no arm '${unknown}'`;
  throw new MgrpoError(
    "config-invalid",
    `--arms ${text}: ${fault}; arms are ${Arm.options.join(", ")}${unknown === undefined ? "" : didYouMean(unknown, Arm.options)}`,
  );
}

/** Parses `5`, seeds 1 to 5, or a range such as `6-10`. */
export function parseSeeds(text: string): number[] {
  const [, first = "1", last = ""] = /^(?:([1-9]\d{0,8})-)?([1-9]\d{0,8})$/.exec(text) ?? [];
  const count = Number(last) - Number(first) + 1;
  if (count >= 1 && count <= MAX_SEEDS) return Array.from({ length: count }, (_, i) => Number(first) + i);
  throw new MgrpoError(
    "config-invalid",
    `--seeds ${text}: write a number of seeds, at most ${MAX_SEEDS}, or a range such as 6-10`,
  );
}

/** Each arm unchanged, followed by the same arm with each value of each varied setting. */
export function entriesOf({ arms, vary }: Pick<CompareOptions, "arms" | "vary">): Entry[] {
  const variations = vary.flatMap(parseVary);
  const slugs = slugsOf(variations);
  return arms.flatMap((arm) => [
    { arm, label: arm },
    ...variations.map((varied, i) => ({ arm, varied, slug: slugs[i] ?? "", label: `${arm}, ${varied}` })),
  ]);
}

/** An entry's run with a seed. `budget`: tokens to sample; undefined for a run that trains for its configured steps. */
export function planRun(
  { recipe, recipeName, options }: { recipe: Recipe; recipeName: string; options: CompareOptions },
  entry: Entry,
  seed: number,
  budget: number | undefined,
): PlannedRun {
  const { arm, varied } = entry;
  const run = [options.name, arm, ...(entry.slug === undefined ? [] : [entry.slug]), `seed${seed}`].join("-");
  const steps = options.steps === undefined ? [] : [`steps=${options.steps}`];
  const chosen = [...options.set, ...(varied === undefined ? [] : [varied])];
  refuseDecided(chosen, varied, options);
  const start = startOf(recipe, arm, startWithSeed(options, seed));
  const plain = [...start, ...options.set, ...steps];
  const common = [...start, ...chosen, ...steps];
  const resolve = (set: readonly string[]) => resolveConfig(recipe, { run, seed, arm, set, recipe: recipeName });
  if (varied !== undefined && differences(resolve(common), resolve(plain)).length === 0) {
    throw new MgrpoError("config-invalid", `--vary ${varied}: this is the value that ${arm} has anyway; leave it out`);
  }
  const unmatched = resolve(common);
  const matched = [...common, ...stagesByShare(unmatched), ...evaluationsByShare(unmatched)];
  if (budget === undefined) return { entry, config: resolve(matched), set: matched };
  const set = [...matched, `steps=${MAX_STEP_RATIO * unmatched.steps}`, `sampledTokens=${budget}`];
  return { entry, config: resolve(set), set };
}

/** The setting that turns stages that begin at a step into stages that begin at a share of the run. */
function stagesByShare({ curriculum, steps }: RunConfig): string[] {
  if (curriculum.length === 1 || curriculum.every(({ fromStep }) => fromStep === undefined)) return [];
  const reached = curriculum.filter(({ fromStep = 0 }) => fromStep < steps);
  const stages = reached.map(({ fromStep = 0, levels }) => ({ from: fromStep / steps, levels }));
  return [`curriculum=${JSON.stringify(stages)}`];
}

/** The setting that turns evaluations after a number of steps into evaluations after a share of the run. */
function evaluationsByShare({ evaluation: { every }, steps }: RunConfig): string[] {
  if (every < 1) return [];
  return [`evaluation.every=${every < steps ? every / steps : 0}`];
}

/**
 * Settings that no run of a comparison would read: path and message. All runs are given the same settings, so a setting is accepted if at least
 * one run reads it. With `--vary algorithm.aggregation=constant`, for example, only the varied runs read `constantTokens`.
 */
export function unreadSettings(configs: readonly RunConfig[]): ReturnType<typeof ignoredSettings> {
  const isIgnored = (config: RunConfig, path: string) => ignoredSettings(config).some(([ignored]) => ignored === path);
  return configs.flatMap((config) =>
    ignoredSettings(config).filter(([path]) => {
      const setting = `${path}=${JSON.stringify(valueAt(config, path))}`;
      const given = configs.filter((other) => valueAt(other, path) !== undefined);
      return given.every((other) => isIgnored(withSettings(other, [setting]) as RunConfig, path));
    }),
  );
}

/** Settings that the comparison itself decides. */
const DECIDED = ["run", "seed", "arm", "recipe", "sampledTokens"];

function refuseDecided(set: readonly string[], varied: string | undefined, { from, questions }: Start): void {
  const chosen = chosenBy(set);
  const found =
    DECIDED.find((path) => chosen(path) !== undefined) ??
    (varied?.startsWith("steps=") ? "steps" : undefined) ??
    (questions !== undefined && chosen("questions") !== undefined ? "questions" : undefined) ??
    (from.length > 0 ? chosenModel(chosen("agents")) : undefined);
  if (found === undefined) return;
  // `--set steps=n`, like --steps, gives every arm the same number.
  const refused = found === "steps" ? "varied" : "set or varied";
  const instead = "use <recipe>, --name, --arms, --seeds, --steps, --tokens, --from or --questions";
  throw new MgrpoError(
    "config-invalid",
    `${found} cannot be ${refused}, because the comparison decides it: ${instead}`,
  );
}

/** The path of a model among the settings of agents. */
function chosenModel(agents: unknown): string | undefined {
  const named = Object.entries(agents ?? {}).find(([, agent]) => Object(agent).model !== undefined);
  return named && `agents.${named[0]}.model`;
}

/** Splits `d=1,2` into `d=1` and `d=2`. Values that contain commas are written as JSON: `{"format":0.1,"correct":0},{…}`. */
function parseVary(text: string): string[] {
  const [, path, list] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
  if (path === undefined || list === undefined) {
    throw new MgrpoError(
      "config-invalid",
      `--vary ${text}: write path=value,value, e.g. --vary algorithm.alignment.d=1,2,4`,
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

/** `algorithm.alignment.d=2` becomes `d-2`: the shortest path suffix that distinguishes all variations, and the value. */
function slugsOf(variations: readonly string[]): string[] {
  const depth = Math.max(1, ...variations.map((one) => pathOf(one).length));
  for (let words = 1; words <= depth; words++) {
    const slugs = variations.map((one) => slug(one, words));
    if (new Set(slugs).size === slugs.length) return slugs;
  }
  const fullPaths = variations.map((one) => slug(one, depth));
  const second = variations.find((_, i) => fullPaths.indexOf(fullPaths[i] ?? "") !== i);
  throw new MgrpoError(
    "config-invalid",
    `--vary ${second}: its runs would have the same names as another variation's; leave one of the two out`,
  );
}

const pathOf = (setting: string) => setting.slice(0, setting.indexOf("=")).split(".");

function slug(setting: string, words: number): string {
  const key = pathOf(setting).slice(-words).join("-");
  const value = setting.slice(setting.indexOf("=") + 1);
  const text = value.replace(/"[^"]*":/g, "").replace(/[^A-Za-z0-9.]+/g, "-");
  return `${key}-${text}`.replace(/^-+|-+$/g, "").replace(/-+/g, "-");
}
