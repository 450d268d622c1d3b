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
];

/** The settings of an agent that only training reads. */
const TRAINING_ONLY_AGENT_SETTINGS = ["optimizer", "temperature", "share", "workers"];

/** The path that a setting changes, itself or within its JSON, and that only training reads. Undefined: there is none. */
function trainingOnlyPath(setting: string): string | undefined {
  const chosen = chosenBy([setting]);
  const ofAgents = Object.keys(chosen("agents") ?? {}).flatMap((agent) =>
    TRAINING_ONLY_AGENT_SETTINGS.map((name) => `agents.${agent}.${name}`),
  );
  return [...TRAINING_ONLY_SETTINGS, ...ofAgents].find((path) => chosen(path) !== undefined);
}

/** The path that a setting changes, itself or within its JSON, and that only training and evaluations read. Undefined: there is none. */
export function pathOfRuns(setting: string): string | undefined {
  const chosen = chosenBy([setting]);
  return trainingOnlyPath(setting) ?? ["budget", "evaluation"].find((path) => chosen(path) !== undefined);
}

/** Refuses settings that only training and evaluations read. `budget`: what limits the cost of the command instead. */
export function refuseSettingsOfRuns(command: string, set: readonly string[], budget = "leave it out"): void {
  for (const setting of set) {
    const path = pathOfRuns(setting);
    if (path === undefined) continue;
    const remedy = path === "budget" ? budget : "leave it out";
    throw new MgrpoError("config-invalid", `--set ${setting}: ${command} does not read ${path}: ${remedy}`);
  }
}

/** `option`: where the settings are given. */
export function refuseTrainingOnlySettings(set: readonly string[], option = "--set"): void {
  for (const setting of set) {
    const path = trainingOnlyPath(setting);
    if (path === undefined) continue;
    const what = setting.startsWith(path) ? `${option} ${setting}` : `${option} ${setting}: ${path}`;
    const own = path.endsWith("temperature") ? "; a suite has its own (evaluation.suites.0.temperature)" : "";
    throw new MgrpoError("config-invalid", `${what} changes only training: leave it out${own}`);
  }
}
