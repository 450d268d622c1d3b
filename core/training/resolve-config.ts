/**
 * @file Resolves the config of a run: the recipe's recommendation for the arm, then the settings of the runner and of the arm, then
 * `--set path=value` in the order given. Nothing is guessed: an unknown key is refused, and a value that is not JSON is a string.
 */
import { Arm, RunConfig, type RunConfigInput } from "../contracts/config.ts";
import { LanguageModelSpec } from "../contracts/language-model.ts";
import { parse } from "../contracts/parse.ts";
import { ownsPolicy, withoutInherited } from "../contracts/shared-policy.ts";
import { isMgrpoError, MgrpoError } from "../errors.ts";

/** The value that the user set at a path of the config such as `agents.main.model`, unchecked. Undefined if not set. */
export type Chosen = (path: string) => unknown;

type AdvisedConfig = Omit<RunConfigInput, "run" | "recipe" | "arm">;

/** The part of a `Recipe` that recommends a config. */
interface Recommendation {
  readonly name: string;
  readonly config: AdvisedConfig | ((arm: Arm, chosen: Chosen) => AdvisedConfig);
}

/** What a run chooses on top of a recipe's recommended config. The settings of `set` come last, so they also override those of the arm. */
export interface RunChoice {
  readonly run: string;
  readonly seed: number;
  readonly arm: Arm;
  /** `path=value`, such as `agents.main.limits.turns=4`. */
  readonly set?: readonly string[];
  /** How functions and workers find the recipe: its name, or the path of a user's folder. */
  readonly recipe?: string;
}

/** The config of a run, with every default filled in. Throws `config-invalid`. */
export function resolveConfig(
  recipe: Recommendation,
  { run, seed, arm, set = [], recipe: location = recipe.name }: RunChoice,
): RunConfig {
  refuseCommandSettings(set);
  const what = `config of run '${run}'`;
  parse(Arm, arm, `${what}: arm`, "config-invalid");
  const advised = typeof recipe.config === "function" ? recipe.config(arm, chosenBy(set)) : recipe.config;
  const recommended: RunConfigInput = { ...advised, run, seed, arm, recipe: location };
  // Without `agents`, as when the key is mistyped, there is no team to apply settings to.
  if (!isConfigNode(recommended.agents)) return parse(RunConfig, recommended, what, "config-invalid");
  const { runner = "native" } = withSettings(advised, set) as { runner?: unknown };
  const ofRunner = runner === "native" ? [] : appSettings(recommended);
  // A shared policy has its owner's settings. So settings of `policy` apply first: agents that share it then take what the user sets for the owner.
  const policies = set.filter((setting) => /^agents\.[^.=]+\.policy=/.test(setting));
  const { agents, ...others } = withSettings(recommended, [
    ...ofRunner,
    ...settingsOf(arm, recommended),
    ...policies,
  ]) as RunConfigInput;
  const config = withSettings({ ...others, agents: withoutInherited(agents) }, set);
  refuseUnknownAgents(set, Object.keys(recommended.agents), config);
  try {
    return parse(RunConfig, config, what, "config-invalid");
  } catch (error) {
    throw withJsonRemedy(error, set);
  }
}

/** The error, with a remedy if a setting's text is a string where a list or an object belongs: often a shell has removed the quotes inside it. */
function withJsonRemedy(error: unknown, set: readonly string[]): unknown {
  if (!isMgrpoError(error, "config-invalid") || !Array.isArray(error.evidence)) return error;
  const { message, evidence, unknownNames } = error;
  const issues: readonly string[] = error.evidence;
  const pathOf = (setting: string) => setting.slice(0, setting.indexOf("="));
  const notJson = set.find((setting) => {
    const path = pathOf(setting);
    const text = setting.slice(path.length + 1);
    const issue = issues.find((one) => one.startsWith(`${path}: `));
    if (issue === undefined || typeof readValue(text) !== "string") return false;
    return /^[[{]/.test(text) || /: Invalid input: expected (array|object|record), received string$/.test(issue);
  });
  if (notJson === undefined) return error;
  const remedy = `--set ${notJson}: the value is not JSON: write it as JSON, and put the setting in single quotes, so that the shell keeps those inside it: --set '${pathOf(notJson)}=…'`;
  return new MgrpoError("config-invalid", `${message}; ${remedy}`, { cause: error, evidence, unknownNames });
}

/** Settings of the config that come from the command itself, and how to give them. */
const COMMAND_SETTINGS: Readonly<Record<string, string>> = {
  run: "use --run if this command has it",
  recipe: "name it in the command itself",
  arm: "use --arm if this command has it",
  seed: "use --seed if this command has it",
};

/**
 * Refuses `--set` for a setting of the command itself. It would come too late: the recipe's advice, the arm's settings and the run's name
 * follow from what the command was given, so `--set arm=main-only` would leave the sub-agents trained.
 */
function refuseCommandSettings(set: readonly string[]): void {
  for (const setting of set) {
    const [name = ""] = setting.split("=", 1);
    if (Object.hasOwn(COMMAND_SETTINGS, name))
      throw new MgrpoError("config-invalid", `--set ${setting}: '${name}' cannot be set: ${COMMAND_SETTINGS[name]}`);
  }
}

/** A setting may add an agent if a setting makes it the main agent, or one that another delegates to. Otherwise its name is mistyped. */
function refuseUnknownAgents(set: readonly string[], recommended: readonly string[], config: object): void {
  const team = Object.values(valueAt(config, "agents") ?? {});
  const reached = team.flatMap((agent) => valueAt(agent, "delegates") ?? []);
  const known = [...recommended, valueAt(config, "main"), ...reached];
  for (const setting of set) {
    const name = /^agents\.([^.=]+)[.=]/.exec(setting)?.[1];
    if (name === undefined || known.includes(name)) continue;
    throw new MgrpoError(
      "config-invalid",
      `--set ${setting}: there is no agent '${name}': the agents are ${recommended.join(", ")}`,
      { unknownNames: [{ unknown: name, known: recommended }] },
    );
  }
}

/** The agents with a policy of their own in an arm's team, which is not checked. None without a team, which `resolveConfig` refuses. */
export function policiesOf({ config }: Recommendation, arm: Arm, set: readonly string[] = []): string[] {
  const advised = typeof config === "function" ? config(arm, chosenBy(set)) : config;
  if (!isConfigNode(advised) || !isConfigNode(advised.agents)) return [];
  const { agents } = withSettings(advised, [...settingsOf(arm, advised), ...set]) as AdvisedConfig;
  return isConfigNode(agents) ? Object.keys(agents).filter((name) => ownsPolicy(agents, name)) : [];
}

export function chosenBy(set: readonly string[]): Chosen {
  const chosen = withSettings({}, set);
  return (path) => valueAt(chosen, path);
}

/** The value at a path such as `agents.main.model`. Undefined if there is none. */
export function valueAt(value: unknown, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>(
      (inner, key) => (isConfigNode(inner) && Object.hasOwn(inner, key) ? inner[key] : undefined),
      value,
    );
}

/** What an arm changes in the recipe's config. For `single-agent` the recipe itself has a different team. */
function settingsOf(arm: Arm, { main = "main", agents }: AdvisedConfig): string[] {
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
        `arm single-agent: the recipe gives ${names.length} agents (${names.join(", ")}), not one: leave the arm out, or have config(arm) give one agent with all tools`,
      );
    case "no-alignment":
      return ["algorithm.alignment.mode=none"];
    case "weighted-alignment":
      return ["algorithm.alignment.mode=weighted"];
    case "shared-policy":
      if (names.length > 1)
        return names.filter((name) => name !== main).map((name) => `agents.${name}.policy=of:${main}`);
      throw new MgrpoError(
        "config-invalid",
        `arm shared-policy: the recipe has one agent, '${main}', and no other to share with: leave the arm out`,
      );
    case "shuffled-advantages":
      return ["algorithm.shuffleAdvantages=true"];
  }
}

/**
 * Settings that remove what a recipe recommends for the native runner only: tools, prompts and closed-book suites. An app has its own tools
 * and prompts. So `runner` alone switches a team to an app; with an app, contracts/runner.ts refuses any of these that the user sets.
 */
function appSettings({ agents, evaluation }: RunConfigInput): string[] {
  const settings = Object.keys(agents).flatMap((name) => [`agents.${name}.tools=[]`, `agents.${name}.system=""`]);
  const open = evaluation?.suites?.filter(({ closedBook }) => !closedBook);
  return open ? [...settings, `evaluation.suites=${JSON.stringify(open)}`] : settings;
}

/** A copy with the settings `path=value` applied in order. The result is not checked. */
export function withSettings(value: object, settings: readonly string[]): object {
  const copy: ConfigNode = { ...copyOf(value) };
  for (const setting of settings) assign(copy, setting);
  return copy;
}

/** Refuses a function, such as that of a tool where its name belongs. */
function copyOf(value: object): object {
  try {
    return structuredClone(value);
  } catch (cause) {
    const message = "the recipe's config has a value that is not JSON: a tool, for instance, is given by its name";
    throw new MgrpoError("config-invalid", message, { cause });
  }
}

type ConfigNode = { [key: string]: unknown };

function assign(config: ConfigNode, setting: string): void {
  const pathLength = setting.indexOf("=");
  if (pathLength < 1) {
    throw new MgrpoError(
      "config-invalid",
      `--set ${setting}: write path=value, such as --set algorithm.alignment.mode=none`,
    );
  }
  const keys = setting.slice(0, pathLength).split(".");
  let parent = config;
  for (const [depth, key] of keys.entries()) {
    refuseName(parent, key, setting, keys.slice(0, depth));
    const next = keys[depth + 1];
    if (next === undefined) {
      parent[key] = readValue(setting.slice(pathLength + 1));
      return;
    }
    const child = longForm(key, parent[key]) ?? {};
    if (!isConfigNode(child))
      throw new MgrpoError("config-invalid", `--set ${setting}: '${key}' is a value and has no '${next}'`);
    // A copy: a recipe may give the same object to several agents, and the setting is for one.
    const own = (Array.isArray(child) ? [...child] : { ...child }) as ConfigNode;
    parent[key] = own;
    parent = own;
  }
}

/** The object that a setting's short form stands for, so that its parts can be set. Any other value is returned as it is. */
function longForm(key: string, value: unknown): unknown {
  if (key === "optimizer" && value === "server") return { kind: "server" };
  return key === "model" && typeof value === "string" ? (LanguageModelSpec.safeParse(value).data ?? value) : value;
}

/** Refuses a key that names no setting: `__proto__`, and in a list anything but the index of an entry or of the next one. */
function refuseName(parent: ConfigNode, key: string, setting: string, path: readonly string[]): void {
  if (key === "__proto__") throw new MgrpoError("config-invalid", `--set ${setting}: there is no setting '${key}'`);
  if (!Array.isArray(parent) || [...parent.keys(), parent.length].map(String).includes(key)) return;
  const list = path.join(".");
  throw new MgrpoError(
    "config-invalid",
    `--set ${setting}: ${list} is a list: write an index, such as ${list}.0, in place of '${key}'; the next free one is ${parent.length}`,
  );
}

/** True for arrays too: `curriculum.0.levels` is a path. */
const isConfigNode = (value: unknown): value is ConfigNode => value !== null && typeof value === "object";

function readValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
