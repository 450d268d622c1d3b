/** @file The source that a run is read from: its local folder, or the store that the environment names. */
import { existsSync } from "node:fs";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { RunRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { StepSummary } from "../../core/monitoring/step-summary.ts";
import type { TeamEvaluation } from "../../core/monitoring/team-evaluation.ts";
import type { Store } from "../../core/ports.ts";
import { allRuns } from "../../core/training/run-list.ts";
import { withRunStore } from "../local/open-store.ts";
import { readEvaluations, readSummary } from "../local/read-records.ts";
import { readSteps } from "../local/recorded-steps.ts";
import { existingRun, type RunStatus, readConfig, readStatus, runFolder, runNames } from "../local/run-folder.ts";
import { namesStore, storeNames } from "../store-names.ts";
import { MGRPO } from "../terminal/name.ts";
import { didYouMean } from "../terminal/nearest.ts";

export interface Source {
  readonly config: RunConfig;
  readonly state: RunStatus["state"];
  readonly reason: string;
  /** Number of closed steps. */
  readonly step: number;
  /** Finished evaluations. */
  readonly evaluations: readonly TeamEvaluation[];
  /** The summaries of all closed steps, without those whose scores have expired. */
  summaries(): Promise<readonly StepSummary[]>;
  read<T>(read: (store: Store) => Promise<T>): Promise<T>;
  /** The run's folder, where pages about the run are written by default. For a run in a store, it may not exist yet. */
  readonly folder: string;
}

/** A local folder takes precedence over the store. */
export async function openSource(run: string): Promise<Source> {
  return existsSync(runFolder(run).config) || !namesStore() ? localSource(run) : storedSource(run);
}

function localSource(run: string): Source {
  const folder = existingRun(run, "for a run in a store set MGRPO_TABLE and MGRPO_BUCKET");
  const { state, reason, step, evaluations } = readStatus(folder);
  return {
    config: readConfig(folder),
    state,
    reason,
    step,
    evaluations,
    folder: folder.path,
    summaries: async () => readSteps(folder),
    read: (read) => withRunStore(folder, read),
  };
}

async function storedSource(run: string): Promise<Source> {
  return withNamedStore(async (store) => {
    const { config, record } = await readStored(store, run);
    const { step, status, reason } = record;
    const evaluations = await readEvaluations(store, config);
    return {
      config,
      state: status,
      reason,
      step,
      evaluations,
      folder: runFolder(config.run).path,
      read: withNamedStore,
      summaries: () => withNamedStore((again) => closedSteps(again, config, record)),
    };
  });
}

/** Summaries of runs in a store, by run and start: a closed step does not change, so a dashboard reads it once. Undefined: expired. */
const summaryCache = new Map<string, (StepSummary | undefined)[]>();

async function closedSteps(store: Store, config: RunConfig, { startedAt, step }: RunRecord): Promise<StepSummary[]> {
  const key = `${config.run}@${startedAt}`;
  const found = summaryCache.get(key) ?? [];
  summaryCache.set(key, found);
  while (found.length < step) {
    const next = found.length;
    const summary = await readSummary(store, config, next, null);
    if (found.length === next) found.push(summary);
  }
  return found.slice(0, step).flatMap((summary) => summary ?? []);
}

/** Opens the store that the environment names, and closes it after the read. */
export async function withNamedStore<T>(read: (store: Store) => Promise<T>): Promise<T> {
  const store = openAwsStore(storeNames("show"));
  return read(store).finally(() => store.close());
}

/** Configs of runs in a store, by their recorded hashes: a dashboard reads each once. */
const configCache = new Map<string, RunConfig>();

export async function readStored(store: Store, run: string): Promise<{ config: RunConfig; record: RunRecord }> {
  const item = await store.table.get(tableKeys.run(run));
  if (!item)
    throw new MgrpoError(
      "not-found",
      `no run '${run}' here or in the store that the environment names: list them with \`${MGRPO} runs\`${didYouMean(run, await knownRuns(store))}`,
    );
  const record = parse(RunRecord, item, `RUN ${run}`);
  const known = configCache.get(record.configSha256);
  if (known) return { config: known, record };
  const key = objectKeys.config(run);
  const bytes = await store.objects.get(key);
  if (!bytes)
    throw new MgrpoError(
      "not-found",
      `${key} is missing from the bucket, but the table has the run: check MGRPO_BUCKET, or restore it`,
    );
  const config = parseJson(RunConfig, bytes, key);
  configCache.set(record.configSha256, config);
  return { config, record };
}

async function knownRuns({ table }: Store): Promise<string[]> {
  return [...runNames(), ...(await allRuns(table))];
}
