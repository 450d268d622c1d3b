/** @file Settings that a command does not read: those of training, and those of training and evaluations. Commands refuse them. */
import { MgrpoError } from "../core/errors.ts";
import { chosenBy } from "../core/training/resolve-config.ts";

/** Settings that only training reads. `algorithm` is not among them: whether a recipe's rewards need a judge may depend on it. */
const TRAINING_ONLY_SETTINGS = [
  "steps",
  "sampledTokens",
  "questionsPerStep",
  "rolloutsPerQuestion",
  "temperature",
  "curriculum",
  "dynamicSampling",
  "staleness",
  "retention",
  "track",
  "trackContent",
  "evaluation.every",
  "limits.invocationSeconds",
  "limits.lostFraction",
];

/** The settings of an agent that only training reads. */
const TRAINING_ONLY_AGENT_SETTINGS = ["optimizer", "temperature", "share", "workers"];

/** Settings that training and evaluations read, and most other commands do not. */
const SETTINGS_OF_RUNS = [
  "algorithm",
  "budget",
  "evaluation",
  "liveness",
  "limits.rolloutSeconds",
  "limits.turnSeconds",
  "limits.toolSeconds",
  "limits.verdictSeconds",
  "limits.attempts",
];

/** The paths that a setting changes, itself or within its JSON, and that only training reads. */
function trainingOnlyPaths(setting: string): string[] {
  const chosen = chosenBy([setting]);
  const ofAgents = Object.keys(chosen("agents") ?? {}).flatMap((agent) =>
    TRAINING_ONLY_AGENT_SETTINGS.map((name) => `agents.${agent}.${name}`),
  );
  return [...TRAINING_ONLY_SETTINGS, ...ofAgents].filter((path) => chosen(path) !== undefined);
}

/** The same for what only training and evaluations read. */
function pathsOfRuns(setting: string): string[] {
  const chosen = chosenBy([setting]);
  return [...trainingOnlyPaths(setting), ...SETTINGS_OF_RUNS.filter((path) => chosen(path) !== undefined)];
}

interface ReadSettings {
  /** Whether the command reads this path nevertheless. */
  readonly reads?: (path: string) => boolean;
  /** What to do instead of setting this path. Undefined: nothing. */
  readonly remedyFor?: (path: string) => string | undefined;
}

/** Refuses settings that only training and evaluations read. */
export function refuseSettingsOfRuns(
  command: string,
  set: readonly string[],
  { reads = () => false, remedyFor = () => undefined }: ReadSettings = {},
): void {
  for (const setting of set) {
    const path = pathsOfRuns(setting).find((one) => !reads(one));
    if (path === undefined) continue;
    const remedy = remedyFor(path) ?? "leave it out";
    throw new MgrpoError("config-invalid", `--set ${setting}: ${command} does not read ${path}: ${remedy}`);
  }
}

/** `option`: where the settings are given. */
export function refuseTrainingOnlySettings(set: readonly string[], option = "--set"): void {
  for (const setting of set) {
    const [path] = trainingOnlyPaths(setting);
    if (path === undefined) continue;
    const what = setting.startsWith(path) ? `${option} ${setting}` : `${option} ${setting}: ${path}`;
    const own = path.endsWith("temperature") ? "; a suite has its own (evaluation.suites.0.temperature)" : "";
    throw new MgrpoError("config-invalid", `${what} changes only training: leave it out${own}`);
  }
}
