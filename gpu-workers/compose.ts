/** @file Wires a worker: the store its environment names, its run, the recipe's tools and rewards, the engines. */
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
import { MgrpoError } from "../core/errors.ts";
import type { PolicyEngine, Store } from "../core/ports.ts";
import type { ToolsModule } from "../core/recipe.ts";
import { openTools, openToolsModule } from "../recipes/registry.ts";
import { openRewards } from "../recipes/rewards.ts";
import type { Log } from "./log.ts";
import { release } from "./release.ts";
import { retryingStore } from "./retrying-store.ts";
import { readRun } from "./run.ts";
import type { WorkerParts } from "./serve.ts";

/** Seconds a worker waits for a store that stopped answering. */
const PATIENCE_SECONDS = 30;

export const WorkerEnvironment = z.object({
  MGRPO_TABLE: z.string("set it to the name of the table").min(1),
  MGRPO_BUCKET: z.string("set it to the name of the bucket").min(1),
  /** Shared by the workers of a run: the key that delegations are signed with. */
  MGRPO_WORKER_TOKEN: z
    .string("set it to the secret that all workers of the run share")
    .min(16, "set the same secret of at least 16 characters for all workers"),
  /** `1`: this process ends when its standard input does. */
  MGRPO_PARENT: z.string().optional(),
  /** `1`: record when engines were busy, under runs/<run>/busy/. */
  MGRPO_BUSY: z.string().optional(),
});
export type WorkerEnvironment = z.infer<typeof WorkerEnvironment>;

export function readEnvironment(environment: Record<string, string | undefined>): WorkerEnvironment {
  return parse(WorkerEnvironment, environment, "environment of the worker", "config-invalid");
}

export function openStore({ MGRPO_TABLE: table, MGRPO_BUCKET: bucket }: WorkerEnvironment): Store {
  return openAwsStore({ table, bucket });
}

/** The store, whose outages are waited out. */
export const patient = (store: Store, log: Log): Store => retryingStore(store, PATIENCE_SECONDS, log);

export interface ComposedParts extends WorkerParts {
  /** When the worker has ended. */
  close(): Promise<void>;
}

export async function compose(name: string, store: Store, log: Log): Promise<ComposedParts> {
  // Read without patience: a store that is not there is said at once, not after half a minute.
  const read = await readRun(name, release(process.env), store, log);
  const run = { ...read, store: patient(store, log) };
  const module = await openToolsModule(run.config.recipe);
  const { policies } = module;
  const engines = new Map<string, PolicyEngine>();
  for (const { policy } of Object.values(run.config.agents)) {
    if (!isEndpointPolicy(policy)) engines.set(policy, await findEngine(policy, policies));
  }
  const opened = await openTools(module, {
    config: run.config,
    environment: process.env,
    store: run.store,
  });
  return {
    run,
    ...opened,
    openOutside: openExternalFiles(),
    // Only who evaluates needs the rewards, and their judges' keys.
    scorerOf: async (suite) =>
      scorerOf(suite, run.asked(suite).criteria, () => openJudge(run.config)) ??
      (await openRewards(run.config, process.env)),
    engineOf(policy) {
      const engine = engines.get(policy);
      if (!engine) throw new MgrpoError("engine-unsupported", `no agent of run '${name}' has policy '${policy}'`);
      return engine;
    },
    apiOf: (agent) => openConversationModel(endpointOf(agent)),
  };
}

function openJudge({ judge }: RunConfig): Judge {
  if (!judge) throw new MgrpoError("config-invalid", "a suite needs a judge: set judge.model");
  return { model: openLanguageModel(judge.model), config: judge };
}

/** The engines of this package are loaded only where they are used: they bring numerical libraries along. */
async function findEngine(policy: string, policies: ToolsModule["policies"]): Promise<PolicyEngine> {
  const brought = policy.startsWith("recipe:") ? policies?.get(policy.slice("recipe:".length)) : undefined;
  if (brought) return brought;
  const { openEngine } = await import("../engine/index.ts");
  return openEngine(policy, policies);
}
