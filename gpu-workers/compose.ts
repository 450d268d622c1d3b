/** @file Wires a worker: the store that its environment names, its run, the recipe's tools and rewards, the engines. */
import * as z from "zod";
import { openAwsStore } from "../adapters/aws/store.ts";
import { scorerOf } from "../adapters/benchmarks/scorers.ts";
import { openExternalFiles } from "../adapters/checkpoints/external-files.ts";
import type { Judge } from "../adapters/judges/vote.ts";
import { openConversationModel } from "../adapters/llm/converse.ts";
import { openLanguageModel } from "../adapters/llm/open.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import { endpointOf, isEndpointPolicy } from "../core/contracts/language-model.ts";
import { parse } from "../core/contracts/parse.ts";
import { resolvePolicies } from "../core/contracts/shared-policy.ts";
import { MgrpoError } from "../core/errors.ts";
import type { PolicyEngine, Store } from "../core/ports.ts";
import type { ToolsModule } from "../core/recipe.ts";
import type { EngineEvents } from "../engine/index.ts";
import { openRollout, openTools, openToolsModule } from "../recipes/registry.ts";
import { openRewards } from "../recipes/rewards.ts";
import { logWithoutQuestions } from "./evaluation/encrypted-run.ts";
import { httpRunner, recipeRunner } from "./gateway/runners.ts";
import { type Log, stackOf } from "./log.ts";
import { release } from "./release.ts";
import { retryingStore } from "./retrying-store.ts";
import { type RunContext, readRunContext } from "./run-context.ts";
import { reportingUnhandledRejections } from "./unhandled-rejections.ts";
import type { WorkerParts } from "./worker-process.ts";

/** How long a worker retries a call to a store that does not respond. */
const STORE_RETRY_SECONDS = 30;

export const WorkerEnvironment = z.object({
  MGRPO_TABLE: z.string("set it to the name of the table").min(1),
  MGRPO_BUCKET: z.string("set it to the name of the bucket").min(1),
  /** Shared by the workers of a run: signs their calls to each other, and the API keys of an app's attempts. */
  MGRPO_WORKER_TOKEN: z
    .string("set it to the secret that all workers of the run share")
    .min(16, "set the same secret of at least 16 characters for all workers"),
  /** `1`: the process exits when its standard input closes. */
  MGRPO_PARENT: z.string().optional(),
});
export type WorkerEnvironment = z.infer<typeof WorkerEnvironment>;

export function readEnvironment(environment: Record<string, string | undefined>): WorkerEnvironment {
  return parse(WorkerEnvironment, environment, "environment of the worker", "config-invalid");
}

export function openStore({ MGRPO_TABLE: table, MGRPO_BUCKET: bucket }: WorkerEnvironment): Store {
  return openAwsStore({ table, bucket });
}

/** The store, which retries its calls through outages. */
export function workerStore(store: Store, log: Log): Store {
  return retryingStore(store, STORE_RETRY_SECONDS, log);
}

export interface ComposedParts extends WorkerParts {
  /** Call after the worker has ended. */
  close(): Promise<void>;
}

export async function compose(name: string, store: Store, log: Log): Promise<ComposedParts> {
  // Without retries: a store that cannot be reached is reported at once.
  const read = await readRunContext(name, release(process.env), store, log);
  const run = { ...read, store: workerStore(store, log) };
  const module = await openToolsModule(run.config.recipe);
  const onOutage = (failure: string) => log.warn("waiting for the Tinker server", { error: failure });
  const engines = await findEngines(run.config.agents, module.policies, { onOutage });
  const runner = await openRunner(run);
  // Last: what it opens, such as MCP servers, has to be closed.
  const opened = await openTools(module, { config: run.config, environment: process.env, store: run.store });
  return {
    run,
    ...opened,
    ...runner,
    openExternalPart: openExternalFiles(),
    // Opened on demand: only evaluation needs the rewards, and their judges' keys.
    scorerOf: async (suite) =>
      scorerOf(suite, run.suiteQuestions(suite).criteria, () => openJudge(run.config)) ??
      (await openRewards(run.config, process.env)),
    engineOf(policy) {
      const engine = engines.get(policy);
      if (!engine) throw new MgrpoError("engine-unsupported", `no agent of run '${name}' has policy '${policy}'`);
      return engine;
    },
    apiOf: (agent) => openConversationModel(endpointOf(agent)),
  };
}

/** The app that runs rollouts, if one does. */
async function openRunner(run: RunContext): Promise<Pick<WorkerParts, "runner">> {
  const { runner, recipe } = run.config;
  if (runner === "native") return {};
  if (runner !== "recipe") return { runner: httpRunner(runner, process.env, run.store.clock) };
  const app = recipeRunner(await openRollout(recipe));
  const what = "a promise of the app was rejected, and nothing handles it: await it, or catch its error";
  const log = logWithoutQuestions(run);
  const report = (error: unknown, question: string) => log.warn(what, { question, error: stackOf(error) });
  return { runner: reportingUnhandledRejections(app, report) };
}

function openJudge({ judge }: RunConfig): Judge {
  if (!judge) throw new MgrpoError("config-invalid", "a suite needs a judge: set judge.model");
  return { model: openLanguageModel(judge.model), config: judge };
}

/** Engines by the name of their policy. Agents behind an API have none. */
export async function findEngines(
  agents: RunConfig["agents"],
  policies: ToolsModule["policies"],
  events: EngineEvents = {},
): Promise<ReadonlyMap<string, PolicyEngine>> {
  const engines = new Map<string, PolicyEngine>();
  for (const { policy } of Object.values(resolvePolicies(agents))) {
    if (!isEndpointPolicy(policy)) engines.set(policy, await findEngine(policy, policies, events));
  }
  return engines;
}

/** The engines of this package are imported only where they are used: they load numerical libraries. */
async function findEngine(
  policy: string,
  policies: ToolsModule["policies"],
  events: EngineEvents,
): Promise<PolicyEngine> {
  const ofRecipe = policy.startsWith("recipe:") ? policies?.get(policy.slice("recipe:".length)) : undefined;
  if (ofRecipe) return ofRecipe;
  const { openEngine } = await import("../engine/index.ts");
  return openEngine(policy, policies, events);
}
