/**
 * @file The team that `mgrpo ask` asks: the trained team of a run that finished on this machine, a team file, a model behind an API, or
 * a recipe's team before training. Every agent is frozen, so models that cannot be trained, such as those behind an API, are allowed too.
 */
import { join } from "node:path";
import type { Arm, RunConfig, RunConfigInput } from "../../core/contracts/config.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Recipe } from "../../core/recipe.ts";
import { chosenBy, resolveConfig } from "../../core/training/resolve-config.ts";
import { openNamedRecipe, openRecipe } from "../../recipes/registry.ts";
import {
  ENDPOINT_ARM,
  ENDPOINT_RECIPE,
  type EndpointTeam,
  endpointSettings,
  parseEndpointTeam,
} from "../endpoint-team.ts";
import { readConfig, runNames } from "../local/run-folder.ts";
import {
  agentsWithCheckpoint,
  findTrainedRun,
  isTeamFile,
  readTeamFile,
  untrainedSettings,
  withStoredConfig,
} from "../team-file.ts";
import { refuseSettingsOfRuns } from "../unread-settings.ts";

/** Nothing is trained or paid by the hour, and the user decides how long to wait. */
const ASK_SETTINGS = [
  "steps=1",
  "budget={}",
  "evaluation={}",
  "limits.rolloutSeconds=86400",
  "limits.turnSeconds=86400",
];

/** The time limits of a question. It has one attempt, sub-agents answer in this process, and nothing is scored. */
const READ_LIMITS = ["limits.rolloutSeconds", "limits.turnSeconds", "limits.toolSeconds"];

export interface AskOptions {
  readonly team: string;
  readonly arm?: Arm;
  readonly seed: number;
  readonly temperature: number;
  readonly set: readonly string[];
}

export interface AskedTeam {
  readonly config: RunConfig;
  readonly recipe: Recipe;
}

export async function readTeam({ team, arm, seed, set }: AskOptions): Promise<AskedTeam> {
  refuseTemperatures(set);
  const budget = "tools.budget and each agent's limits bound what a question costs";
  refuseSettingsOfRuns("ask", set, {
    reads: (path) => READ_LIMITS.includes(path),
    remedyFor: (path) => (path === "budget" ? budget : undefined),
  });
  const found = await findTeam(team, arm);
  const { recipe, name, advised } = found;
  const advice = advised.config(found.arm, chosenBy(set));
  const api = found.endpoint ? endpointSettings(found.endpoint, Object.keys(advice.agents)) : [];
  const all = [...untrainedSettings(advice), ...api, ...ASK_SETTINGS, ...set];
  const choice = { run: "ask", recipe: name, arm: found.arm, seed };
  const config = resolveConfig(advised, { ...choice, set: all });
  const { checkpoints } = found;
  if (checkpoints === undefined) return { config, recipe };
  const models = agentsWithCheckpoint(config.agents).map(
    (agent) => `agents.${agent}.model=${join(checkpoints, agent)}`,
  );
  return { config: resolveConfig(advised, { ...choice, set: [...models, ...all] }), recipe };
}

/** Refuses the temperatures of training where they would change nothing. */
function refuseTemperatures(set: readonly string[]): void {
  const chosen = chosenBy(set);
  const ofAgents = Object.keys(chosen("agents") ?? {}).map((agent) => `agents.${agent}.temperature`);
  const path = ["temperature", ...ofAgents].find((one) => chosen(one) !== undefined);
  if (path === undefined) return;
  const message = `--set ${path}=${chosen(path)} changes only training: ask samples every agent at the temperature that --temperature gives`;
  throw new MgrpoError("config-invalid", message);
}

interface FoundTeam {
  readonly recipe: Recipe;
  readonly name: string;
  readonly arm: Arm;
  readonly advised: Pick<Recipe, "name" | "config">;
  /** A run's folder of checkpoints: one per policy, in a subfolder named after the agent that owns the policy. */
  readonly checkpoints?: string;
  /** The model that all agents use. */
  readonly endpoint?: EndpointTeam;
}

async function findTeam(team: string, wanted: Arm | undefined): Promise<FoundTeam> {
  const folder = findTrainedRun(team);
  const arm = wanted ?? "mgrpo";
  if (folder) {
    if (wanted) {
      throw new MgrpoError(
        "config-invalid",
        `run '${team}' has an arm already: --arm is for a recipe, a team file or a model behind an API`,
      );
    }
    const config = readConfig(folder);
    return { ...(await ofConfig(config.recipe, config, config.arm)), checkpoints: folder.checkpoints };
  }
  if (isTeamFile(team)) {
    const file = readTeamFile(team, "--team");
    return ofConfig(file.recipe, file, arm);
  }
  const endpoint = parseEndpointTeam(team);
  const name = endpoint ? ENDPOINT_RECIPE : team;
  const recipe = await (endpoint ? openRecipe : openNamedRecipe)(name).catch((error: unknown) => {
    throw isMgrpoError(error, "recipe-invalid") && error.unknownNames.length > 0 ? unknownTeam(error, team) : error;
  });
  return { recipe, name, arm, advised: recipe, ...(endpoint && { endpoint, arm: wanted ?? ENDPOINT_ARM }) };
}

/** The error for a name that may be a mistyped run or recipe. */
function unknownTeam({ message, unknownNames }: MgrpoError, team: string): MgrpoError {
  return new MgrpoError("not-found", `--team ${team}: there is no such run here, and ${message}`, {
    unknownNames: [{ unknown: team, known: runNames() }, ...unknownNames],
  });
}

async function ofConfig(name: string, config: RunConfigInput, arm: Arm): Promise<FoundTeam> {
  const recipe = await openRecipe(name);
  return { recipe, name, arm, advised: withStoredConfig(recipe, config) };
}
