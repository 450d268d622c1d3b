/** @file The team that `mgrpo serve` serves: a run that finished on this machine, or a folder with one model per agent. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { RunConfig, RunConfigInput } from "../../core/contracts/config.ts";
import { isEndpointPolicy } from "../../core/contracts/language-model.ts";
import { AgentName } from "../../core/contracts/names.ts";
import { parse } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { ADAPTER_CONFIG_FILE } from "../../engine/checkpoint/adapter.ts";
import { longestContext } from "../../engine/checkpoint/config.ts";
import { TINKER } from "../../engine/tinker/policy.ts";
import { readModel } from "../local/base-models.ts";
import { readConfig, runNames } from "../local/run-folder.ts";
import { agentsWithCheckpoint, exportHint, findTrainedRun, untrainedSettings } from "../team-file.ts";
import { didYouMean } from "../terminal/nearest.ts";
import { refuseSettingsOfRuns } from "../unread-settings.ts";

export interface PlannedServing {
  readonly config: RunConfig;
  /** Agents that are not served, and why. */
  readonly notes: readonly string[];
}

/** Nothing is trained or evaluated and no rollout runs. A turn may take up to a day. */
const SERVING = ["steps=1", "runner=native", "evaluation={}", "budget={}", "limits.turnSeconds=86400"];

/** Caps the context of a model that belongs to no run, because every slot's KV cache may need memory for the whole context. */
const MAX_CONTEXT_TOKENS = 4096;
/** `turnTokens` of such a model is its context divided by this. */
const TURN_DIVISOR = 4;

/** `responseCharacters` of such a model: the limit that it was trained with, if any, is unknown. */
const UNLIMITED = Number.MAX_SAFE_INTEGER;

export async function planServing(target: string, set: readonly string[]): Promise<PlannedServing> {
  // A request that sets no temperature is sampled at its agent's training temperature.
  const reads = (path: string) => path.endsWith("temperature") || path === "limits.turnSeconds";
  refuseSettingsOfRuns("serve", set, { reads });
  const run = findTrainedRun(target);
  const [team, checkpoints] = run
    ? [readConfig(run), run.checkpoints]
    : [await folderTeam(resolve(target)), resolve(target)];
  if (!team) {
    const hint = didYouMean(target, runNames());
    throw new MgrpoError(
      "not-found",
      `no run and no folder of models '${target}': give a run's name, or a folder with one model per agent${hint}${exportHint(target)}`,
    );
  }
  const models = agentsWithCheckpoint(team.agents).map((name) => `agents.${name}.model=${join(checkpoints, name)}`);
  const { recipe } = team;
  const advice = { name: recipe, config: () => team };
  const { arm = "mgrpo", seed = 1 } = team;
  const settings = [...untrainedSettings(team), ...models, ...SERVING, ...set];
  const config = resolveConfig(advice, { run: "serve", recipe, arm, seed, set: settings });
  const elsewhere = Object.keys(team.agents).filter((name) => isEndpointPolicy(team.agents[name]?.policy ?? ""));
  return {
    config,
    notes: elsewhere.map(
      (name) => `agent '${name}' is not served, since it is behind an API: the app calls that API directly`,
    ),
  };
}

/** Of all engines, only a Tinker server does not sample at every temperature. */
export function refuseTemperature({ agents }: Pick<RunConfig, "agents">, temperature: number | undefined): void {
  if (temperature === undefined || temperature === 0 || temperature === 1) return;
  const name = Object.keys(agents).find((one) => agents[one]?.policy.startsWith(TINKER));
  if (name === undefined) return;
  const why = `agent '${name}' is on a Tinker server, which computes log-probs at temperature 1`;
  throw new MgrpoError("config-invalid", `--temperature ${temperature}: ${why}: set it to 1, or to 0 (greedy)`);
}

/** A folder's models with the default settings, one agent per model, named after the model's folder. Undefined if it has no model. */
async function folderTeam(folder: string): Promise<RunConfigInput | undefined> {
  const names = statSync(folder, { throwIfNoEntry: false })?.isDirectory()
    ? readdirSync(folder)
        .filter((name) => isModel(join(folder, name)))
        .sort()
    : [];
  const [first] = names;
  if (first === undefined) return undefined;
  const agents: RunConfigInput["agents"] = {};
  for (const name of names) {
    const model = join(folder, name);
    parse(AgentName, name, `${model}: a model's folder is named after its agent`, "config-invalid");
    const longest = longestContext(await readModel(model, model)) ?? MAX_CONTEXT_TOKENS;
    const contextTokens = Math.min(longest, MAX_CONTEXT_TOKENS);
    const turnTokens = Math.ceil(contextTokens / TURN_DIVISOR);
    agents[name] = { model, limits: { contextTokens, turnTokens, responseCharacters: UNLIMITED } };
  }
  const main = names.includes("main") ? "main" : first;
  Object.assign(agents[main] ?? {}, { delegates: names.filter((name) => name !== main) });
  return { run: "serve", recipe: "atlas", arm: "mgrpo", steps: 1, main, agents };
}

const isModel = (folder: string) =>
  existsSync(join(folder, "config.json")) || existsSync(join(folder, ADAPTER_CONFIG_FILE));
