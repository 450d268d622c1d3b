/**
 * @file The teams of runs and of team files, for commands that use a team but do not train it. A team file is a run config in JSON in which
 * only the recipe and the agents are required.
 */
import { existsSync } from "node:fs";
import * as z from "zod";
import type { RunConfigInput } from "../core/contracts/config.ts";
import { isEndpointPolicy } from "../core/contracts/language-model.ts";
import { RunName } from "../core/contracts/names.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { ownsPolicy } from "../core/contracts/shared-policy.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Recipe } from "../core/recipe.ts";
import { valueAt } from "../core/training/resolve-config.ts";
import { findRun, type RunFolder, readText } from "./local/run-folder.ts";
import { namesStore } from "./store-names.ts";
import { MGRPO, quoted } from "./terminal/name.ts";

/** The folder of a run with checkpoints; undefined if there is no such run. Throws `not-found` if it has no checkpoints yet. */
export function findTrainedRun(name: string): RunFolder | undefined {
  const folder = findRun(name);
  if (!folder || existsSync(folder.checkpoints)) return folder;
  throw new MgrpoError(
    "not-found",
    `run '${name}' has no checkpoints yet, at ${folder.checkpoints}: \`${MGRPO} export ${quoted(name)}\` writes a folder of its last step for eval and serve`,
  );
}

/** What to do if `name`, which names no team here, names a run in the store of the environment. */
export const exportHint = (name: string): string =>
  namesStore() && RunName.safeParse(name).success
    ? `; for a run in the store, give the folder that \`${MGRPO} export ${quoted(name)}\` writes`
    : "";

/** The part needed to find the recipe and freeze the agents. The settings are validated later, together with the recipe's. */
const TeamFile = z.looseObject({ recipe: z.string(), agents: z.record(z.string(), z.looseObject({})) });

export const isTeamFile = (target: string): boolean => target.endsWith(".json");

/** `option` precedes the file's name in messages. */
export function readTeamFile(file: string, option: string): RunConfigInput {
  const name = [option, file].filter(Boolean).join(" ");
  if (!existsSync(file)) throw new MgrpoError("not-found", `${name}: no such file`);
  // resolveConfig checks the agents against the full schema.
  return parseJson(TeamFile, readText(file), name, "config-invalid") as unknown as RunConfigInput;
}

/** Settings that freeze every agent, so that a team with agents that cannot be trained, such as those behind an API, is allowed too. */
export const untrainedSettings = ({ agents }: Pick<RunConfigInput, "agents">): string[] =>
  Object.keys(agents).map((agent) => `agents.${agent}.trained=false`);

/** The agents with a checkpoint in a team's folder: all but those behind an API and those that use another agent's policy. */
export const agentsWithCheckpoint = (agents: RunConfigInput["agents"]): string[] =>
  Object.keys(agents).filter((name) => !isEndpointPolicy(agents[name]?.policy ?? "") && ownsPolicy(agents, name));

/**
 * The recipe, with the config of a file or run as its recommendation. Judge settings and suites missing there come from the recipe; so do tools
 * and system messages if an app's team is to run natively.
 */
export function withStoredConfig(recipe: Recipe, stored: RunConfigInput): Pick<Recipe, "name" | "config"> {
  return {
    name: recipe.name,
    config(arm, chosen) {
      const advised = recipe.config(arm, (path) => chosen(path) ?? valueAt(stored, path));
      const judge = stored.judge ? { ...advised.judge, ...stored.judge } : advised.judge;
      // With training questions alone, there are no held-out ones, which the recipe's suites ask.
      const hasHeldOut = stored.questions === undefined || stored.questions.heldOut !== undefined;
      const evaluation = { ...(hasHeldOut && advised.evaluation), ...stored.evaluation };
      const goesNative = (stored.runner ?? "native") !== "native" && chosen("runner") === "native";
      const agents = goesNative ? withTools(stored.agents, advised.agents) : stored.agents;
      return { ...stored, agents, evaluation, ...(judge && { judge }) };
    },
  };
}

/** The stored agents with the recipe's tools and system messages. They have none of their own: the app had them. */
function withTools(stored: RunConfigInput["agents"], fromRecipe: RunConfigInput["agents"]): RunConfigInput["agents"] {
  const native = Object.entries(stored).map(([name, agent]) => {
    const { tools = [], system = "" } = fromRecipe[name] ?? {};
    return [name, { ...agent, tools, system }];
  });
  return Object.fromEntries(native);
}
