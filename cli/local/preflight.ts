/**
 * @file The checks before a run: its team, app, trackers, rewards, keys, tools, engines, base models, model servers, memory and store. A failed
 * check does not end the pass: all findings are reported together, so that the user can fix them at once. The tools module is loaded once, and
 * its tools are opened at most once.
 */
import { openConversationModel } from "../../adapters/llm/converse.ts";
import { openLanguageModel } from "../../adapters/llm/open.ts";
import { requireServer } from "../../adapters/llm/server-check.ts";
import { checkTrackers } from "../../adapters/trackers/open.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { ignoredSettings } from "../../core/contracts/ignored-settings.ts";
import { endpointOf, isEndpointPolicy, LanguageModelSpec } from "../../core/contracts/language-model.ts";
import { ownsPolicy, policySettings } from "../../core/contracts/shared-policy.ts";
import { openToolbox } from "../../core/conversation/toolbox.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import type { ToolsModule } from "../../core/recipe.ts";
import { trainedAgents } from "../../core/training/step-plan.ts";
import { openEngine } from "../../engine/index.ts";
import { engineOptions } from "../../gpu-workers/engine-options.ts";
import { httpRunner } from "../../gpu-workers/gateway/runners.ts";
import { openRollout, openTools, openToolsModule } from "../../recipes/registry.ts";
import { openRewards } from "../../recipes/rewards.ts";
import { MGRPO } from "../terminal/name.ts";
import { type Bases, readBases, readPolicyBase, refuseLocalFiles } from "./base-models.ts";
import { Findings } from "./findings.ts";
import { checkMemory } from "./model-needs.ts";

/** Where a run takes place. */
export interface Site {
  /** `here`: this machine must have the keys, the engines and the memory. `elsewhere`: it only starts the run. */
  readonly workers: "here" | "elsewhere";
  /** A started run has its base models in its store, so they are not read again. */
  readonly models: "read" | "stored";
  /** Whether a run begins there: then settings that nothing would read are refused. A run that has them already can continue. */
  begins(): boolean | Promise<boolean>;
  /** Rejects if the run cannot be stored there. */
  checkStore(findings: Findings): void | Promise<void>;
}

export interface Preflight {
  readonly findings: Findings;
  /** The base models that could be read; none where the site has them stored. */
  readonly bases: Bases;
}

/** Finds everything that is wrong with a run before it starts, and adds it to `findings`. Rejects only on a bug in this program. */
export async function preflight(config: RunConfig, site: Site, findings = new Findings()): Promise<Preflight> {
  const bases = new Map<string, CheckpointFiles>();
  const { recipe, agents, judge } = config;
  const module = await findings.attempt(() => openToolsModule(recipe));
  await findings.attempt(() => refuseUntrained(config));
  if (await findings.attempt(() => site.begins())) refuseIgnored(config, findings);
  await findings.attempt(() => refuseMissingApp(config, site.workers));
  await findings.attempt(() => refuseMissingTracker(config, site.workers));
  if (site.workers === "here") {
    await findings.attempt(() => openRewards(config, process.env));
    if (judge) await findings.attempt(() => openLanguageModel(judge.model));
  }
  for (const name of Object.keys(agents).filter((one) => ownsPolicy(agents, one))) {
    const base = await checkAgent(name, config, module, site, findings);
    if (base) bases.set(name, base);
  }
  // Tools that need settings and keys are opened on the machine that uses them.
  const opensHere = site.workers === "here" || typeof module?.tools !== "function";
  if (module && opensHere) await refuseMissingTools(config, module, findings);
  if (site.workers === "here") await requireServers(config, findings);
  if (site.workers === "here") checkMemory(config, bases, findings);
  await findings.attempt(() => site.checkStore(findings));
  return { findings, bases };
}

/** Finds everything that keeps this machine from evaluating a team, and reads the team's models. Rejects with all findings in one error. */
export async function preflightEvaluation(config: RunConfig): Promise<Bases> {
  const findings = new Findings();
  const { recipe, agents, judge } = config;
  await findings.attempt(() => openRewards(config, process.env));
  if (judge) await findings.attempt(() => openLanguageModel(judge.model));
  for (const agent of Object.values(agents).filter(({ policy }) => isEndpointPolicy(policy)))
    await findings.attempt(() => openConversationModel(endpointOf(agent)));
  await findings.attempt(() => refuseMissingApp(config, "here"));
  const module = await findings.attempt(() => openToolsModule(recipe));
  if (module) await refuseMissingTools(config, module, findings);
  await requireServers(config, findings);
  const bases = await findings.attempt(() => readBases(config, "evaluate"));
  findings.reportAndThrow();
  return bases ?? new Map();
}

/** Refuses a recipe without the app that is to run its rollouts, and a remote app whose secret is missing. */
async function refuseMissingApp({ runner, recipe }: RunConfig, workers: Site["workers"]): Promise<void> {
  if (runner === "recipe") await openRollout(recipe);
  else if (runner !== "native" && workers === "here") httpRunner(runner, process.env, { storeTime: async () => 0 });
}

/** Refuses trackers without their settings, and those of a run elsewhere, which would get nothing. */
function refuseMissingTracker({ run, track, trackContent }: RunConfig, workers: Site["workers"]): void {
  if (workers === "here") checkTrackers({ track, trackContent }, process.env);
  else if (track.length > 0)
    throw new MgrpoError(
      "config-invalid",
      `track: a run on other machines sends no metrics by itself: leave it out, and send them with \`${MGRPO} track ${run} --to ${track.join(",")}\``,
    );
}

function refuseUntrained(config: RunConfig): void {
  if (trainedAgents(config).length > 0) return;
  throw new MgrpoError("config-invalid", "no agent of this team is trained: set agents.<name>.trained to true for one");
}

function refuseIgnored(config: RunConfig, findings: Findings): void {
  for (const fault of ignoredSettings(config)) findings.refuse(ignoredSetting(fault));
}

export const ignoredSetting = ([path, message]: ReturnType<typeof ignoredSettings>[number]): MgrpoError =>
  new MgrpoError("config-invalid", `${path}: ${message}`);

/** Checks the engine or API of an agent's own policy, and reads its base model. An unknown engine is a single finding, since its model cannot be checked. */
async function checkAgent(
  name: string,
  config: RunConfig,
  module: ToolsModule | undefined,
  { workers, models }: Site,
  findings: Findings,
): Promise<CheckpointFiles | undefined> {
  const agent = policySettings(config.agents, name);
  const isEndpoint = isEndpointPolicy(agent.policy);
  const opensEngine = !isEndpoint && module !== undefined;
  const engine = opensEngine ? await findings.attempt(() => openEngine(agent.policy, module.policies)) : undefined;
  if (opensEngine && !engine) return undefined;
  if (isEndpoint && workers === "here") await findings.attempt(() => openConversationModel(endpointOf(agent)));
  if (models === "stored") return undefined;
  const base = await findings.attempt(() => readPolicyBase(config, name, (message) => findings.note(message)));
  if (workers === "here") {
    await findings.attempt(() => engine?.computesOn?.(engineOptions(agent)));
    if (base) await findings.attempt(() => engine?.check?.(base, engineOptions(agent)));
  } else if (base) {
    await findings.attempt(() => refuseLocalFiles(name, base));
  }
  return base;
}

/** Refuses model servers that cannot be connected to. Each is asked once, all of them at the same time. */
async function requireServers({ agents, judge }: RunConfig, findings: Findings): Promise<void> {
  const named = Object.values(agents).flatMap((agent) => (isEndpointPolicy(agent.policy) ? [endpointOf(agent)] : []));
  // A malformed spec is already a finding.
  const specs = [...named, ...(judge ? [judge.model] : [])].flatMap(
    (spec) => LanguageModelSpec.safeParse(spec).data ?? [],
  );
  const byServer = new Map(specs.map((spec) => [spec.provider === "openai" ? spec.baseUrl : spec.provider, spec]));
  await Promise.all([...byServer.values()].map((spec) => findings.attempt(() => requireServer(spec))));
}

/** Refuses tools that the recipe lacks, that no agent could be shown, or whose settings or keys are missing. */
async function refuseMissingTools(config: RunConfig, module: ToolsModule, findings: Findings): Promise<void> {
  const opened = await findings.attempt(() => openTools(module, { config, environment: process.env }));
  if (!opened) return;
  try {
    for (const [name, agent] of Object.entries(config.agents))
      await findings.attempt(() => openToolbox(name, agent, opened.tools));
  } finally {
    await opened.close();
  }
}
