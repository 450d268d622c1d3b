/**
 * @file Follows a run through its records: every closed step, every finished evaluation, what it waits for, and its end. It only reads, so
 * following a run never changes it.
 *
 *     event          waits for                                                      unblocked by
 *     next step      RUN.step: all manifests of the step exist                      tick
 *     evaluation     JOB is `done`                                                  record-evaluation
 *     end            RUN is `halted`, or `finished` and every due evaluation done   tick, record-evaluation
 */
import { statfs } from "node:fs/promises";
import { Manifest } from "../../core/contracts/checkpoint.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, type TableKey, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import {
  AgentRecord,
  FleetRecord,
  GroupRecord,
  JobRecord,
  RunRecord,
  StepRecord,
  WorkerRecord,
} from "../../core/contracts/records.ts";
import type { OptimizerProbe } from "../../core/contracts/server-optimizer.ts";
import { ToolSpendingRecord } from "../../core/contracts/spending.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Disk, RunState } from "../../core/monitoring/run-state.ts";
import { describeStall, StallDetector } from "../../core/monitoring/stall.ts";
import { type StepSummary, summarizeStep } from "../../core/monitoring/step-summary.ts";
import { evaluationOf, sortEvaluations, type TeamEvaluation } from "../../core/monitoring/team-evaluation.ts";
import { waitingFor } from "../../core/monitoring/waiting.ts";
import type { Store } from "../../core/ports.ts";
import { readApiSpending } from "../../core/training/api-spending.ts";
import { dueSuites } from "../../core/training/evaluation.ts";
import { type Spending, spending } from "../../core/training/run-budget.ts";
import { versionAfter } from "../../core/training/step-plan.ts";
import { findRun } from "./run-folder.ts";

export type RunEvent =
  | { readonly kind: "step"; readonly summary: StepSummary }
  | { readonly kind: "evaluation"; readonly evaluation: TeamEvaluation }
  | { readonly kind: "optimizer"; readonly agent: string; readonly optimizer: OptimizerProbe }
  | { readonly kind: "waiting"; readonly step: number; readonly for: string }
  | { readonly kind: "stalled"; readonly step: number; readonly text: string }
  | { readonly kind: "ended"; readonly status: "finished" | "halted"; readonly reason: string };

/** Time between reads beyond the RUN record: finding out what a run waits for takes a dozen reads of a busy store. */
const DETAIL_SECONDS = 2;
/** Time between two reports of the same stall. */
const REPEAT_SECONDS = 300;

export interface FollowOptions {
  /** The first step to report. */
  readonly from: number;
  readonly pollSeconds: number;
  readonly signal: AbortSignal;
}

/** Ends after `ended`, or when the signal aborts. */
export async function* followRun(
  store: Store,
  config: RunConfig,
  { from, pollSeconds, signal }: FollowOptions,
): AsyncGenerator<RunEvent> {
  const { clock } = store;
  const timer = new StepTimer(from, clock.monotonic());
  const reported = new Set<string>();
  const stalls = new StallReporter(config);
  let looked = Number.NEGATIVE_INFINITY;
  while (!signal.aborted) {
    const run = await readRun(store, config.run);
    const now = clock.monotonic();
    for (const { step, seconds } of timer.closedBy(run.step, now)) {
      stalls.stepSeconds = seconds;
      yield { kind: "step", summary: await readSummary(store, config, step, seconds) };
    }
    if (run.status !== "running" || now - looked >= DETAIL_SECONDS) {
      looked = now;
      for (const found of await readOptimizers(store, config)) {
        if (reported.has(`optimizer of ${found.agent}`)) continue;
        reported.add(`optimizer of ${found.agent}`);
        yield { kind: "optimizer", ...found };
      }
      const jobs = await readJobs(store, config.run);
      for (const job of jobs.filter((one) => one.state === "done" && !reported.has(one.job))) {
        reported.add(job.job);
        yield { kind: "evaluation", evaluation: evaluationOf(suiteOf(config, job.suite), job) };
      }
      if (run.status === "halted") return yield { kind: "ended", status: "halted", reason: run.reason };
      const state = run.status === "running" ? await readState(store, config, run) : undefined;
      const wait = state ? waitingFor(config, state) : evaluating(config, run.step, jobs);
      if (wait === undefined) return yield { kind: "ended", status: "finished", reason: "" };
      yield { kind: "waiting", step: run.step, for: wait };
      const text = state && stalls.look(state, await clock.storeTime());
      if (text !== undefined) yield { kind: "stalled", step: run.step, text };
    }
    await clock.sleep(pollSeconds, signal);
  }
}

/** Reports a stall when it begins, and again every few minutes. */
class StallReporter {
  stepSeconds: number | null = null;
  readonly #detector: StallDetector;
  #reportAt = 0;

  constructor(config: RunConfig) {
    this.#detector = new StallDetector(config);
  }

  look(state: RunState, storeTime: number): string | undefined {
    const stall = this.#detector.look(state, storeTime, this.stepSeconds);
    if (!stall) this.#reportAt = 0;
    if (!stall || stall.seconds < this.#reportAt) return undefined;
    this.#reportAt = stall.seconds + REPEAT_SECONDS;
    return describeStall(stall);
  }
}

/** Times the steps that close while the run is followed. */
class StepTimer {
  /** The first step that has not been reported. */
  #next: number;
  /** When it began, or when following began. */
  #since: number;
  /** The open step when following began: earlier ones were not observed. */
  #first: number | undefined;

  constructor(next: number, now: number) {
    this.#next = next;
    this.#since = now;
  }

  /** The steps that closed since the last call, before step `open`. They split the time equally; `null`: not observed. */
  closedBy(open: number, now: number): { readonly step: number; readonly seconds: number | null }[] {
    const first = this.#first ?? open;
    this.#first = first;
    const observed = open - Math.max(this.#next, first);
    const seconds = (now - this.#since) / Math.max(1, observed);
    const closed = Array.from({ length: Math.max(0, open - this.#next) }, (_, i) => {
      const step = this.#next + i;
      return { step, seconds: step < first ? null : seconds };
    });
    if (closed.length > 0) this.#since = now;
    this.#next = Math.max(this.#next, open);
    return closed;
  }
}

/** What a run does or waits for now; undefined when it is over. */
export async function readWait(store: Store, config: RunConfig): Promise<string | undefined> {
  const run = await readRun(store, config.run);
  if (run.status === "halted") return undefined;
  if (run.status === "running") return waitingFor(config, await readState(store, config, run));
  return evaluating(config, run.step, await readJobs(store, config.run));
}

/** Optimizer probes of the servers that train agents with their own optimizer. */
export async function readOptimizers(
  store: Store,
  { run, agents }: RunConfig,
): Promise<{ readonly agent: string; readonly optimizer: OptimizerProbe }[]> {
  const declared = Object.keys(agents).filter((name) => agents[name]?.optimizer.kind === "server");
  const items = await store.table.getAll(declared.map((name) => tableKeys.agent(run, name)));
  return items.flatMap((item, i) => {
    if (!item) return [];
    const { agent, optimizer } = parse(AgentRecord, item, `AGENT ${declared[i]} of ${run}`);
    return optimizer ? [{ agent, optimizer }] : [];
  });
}

/** Fleets whose instances refused to serve the run, and why. */
export async function readRefusals(store: Store, run: string) {
  const fleets = await store.table.query(tableKeys.run(run).pk, tablePrefixes.fleets);
  return fleets.flatMap((item) => {
    const { fleet, refusal } = parse(FleetRecord, item, `FLEET of ${run}`);
    return refusal ? [{ fleet, ...refusal }] : [];
  });
}

/** `evaluation 2 of 6: greedy after 0 steps`, for a finished run; undefined if every suite of every team has a score. */
function evaluating(config: RunConfig, last: number, jobs: readonly JobRecord[]): string | undefined {
  const jobOf = (team: number, suite: string) => jobs.find((job) => job.team === team && job.suite === suite);
  const teams = Array.from({ length: last + 1 }, (_, team) => team);
  const due = teams.flatMap((team) =>
    dueSuites(config, team, team === last).map(({ name }) => ({ name, team, state: jobOf(team, name)?.state })),
  );
  const open = due.filter(({ state }) => state !== "done");
  const current = open.find(({ state }) => state === "leased") ?? open[0];
  if (!current) return undefined;
  return `evaluation ${due.length - open.length + 1} of ${due.length}: ${current.name} after ${current.team} steps`;
}

export async function readRun(store: Store, run: string): Promise<RunRecord> {
  return parse(RunRecord, await getExisting(store, tableKeys.run(run)), `RUN ${run}`);
}

export async function readStep(store: Store, run: string, step: number): Promise<StepRecord> {
  return parse(StepRecord, await getExisting(store, tableKeys.step(run, step)), `STEP ${step} of ${run}`);
}

/** @param wanted indices; absent: all. Those that have expired are left out. */
export async function readGroups(store: Store, step: StepRecord, wanted?: readonly number[]): Promise<GroupRecord[]> {
  const indices = wanted ?? step.groups.map((_, group) => group);
  const items = await store.table.getAll(indices.map((group) => tableKeys.group(step.run, step.step, group)));
  return items.flatMap((item, i) =>
    item ? [parse(GroupRecord, item, `GROUP ${step.step}/${indices[i]} of ${step.run}`)] : [],
  );
}

export async function readJobs(store: Store, run: string): Promise<JobRecord[]> {
  const items = await store.table.query(tableKeys.run(run).pk, tablePrefixes.jobs);
  return items.map((item) => parse(JobRecord, item, `JOB of ${run}`));
}

/** The scores of the finished evaluations. */
export async function readEvaluations(store: Store, config: RunConfig): Promise<TeamEvaluation[]> {
  const done = (await readJobs(store, config.run)).filter(({ state }) => state === "done");
  return sortEvaluations(
    config,
    done.map((job) => evaluationOf(suiteOf(config, job.suite), job)),
  );
}

/** What the run has cost so far. Elapsed hours are left out; worker hours are charged. */
export async function readSpending(store: Store, config: RunConfig): Promise<Omit<Spending, "hours">> {
  const workers = (await store.table.query(tableKeys.run(config.run).pk, tablePrefixes.workers)).map((worker) =>
    parse(WorkerRecord, worker, `WORKER of ${config.run}`),
  );
  const apiSpending = await readApiSpending(store.table, config.run);
  const { hours: _, ...spent } = spending(config, await readRun(store, config.run), workers, apiSpending, 0);
  return spent;
}

export async function readState(store: Store, config: RunConfig, run: RunRecord): Promise<RunState> {
  const { pk } = tableKeys.run(config.run);
  const [item, tools, agents, workers] = await Promise.all([
    store.table.get(tableKeys.step(config.run, run.step)),
    store.table.get(tableKeys.toolSpending(config.run)),
    store.table.query(pk, tablePrefixes.agents),
    store.table.query(pk, tablePrefixes.workers),
  ]);
  const step = item && parse(StepRecord, item, `STEP ${run.step} of ${config.run}`);
  return {
    step,
    groups: step ? await readGroups(store, step) : [],
    agents: agents.map((agent) => parse(AgentRecord, agent, `AGENT of ${config.run}`)),
    workers: workers.map((worker) => parse(WorkerRecord, worker, `WORKER of ${config.run}`)),
    tools: tools && parse(ToolSpendingRecord, tools, `TOOLS of ${config.run}`),
    disk: await readDisk(config.run),
  };
}

/** Free space on the disk of the run's folder; undefined if the folder is not on this machine. */
async function readDisk(run: string): Promise<Disk | undefined> {
  const folder = findRun(run);
  if (!folder) return undefined;
  const { bavail, blocks, bsize } = await statfs(folder.path);
  return { path: folder.path, freeBytes: bavail * bsize, totalBytes: blocks * bsize };
}

/** The summary of a closed step. `seconds` is null if it closed while nobody followed the run; what the run had cost by then is unknown too. */
export async function readSummary(
  store: Store,
  config: RunConfig,
  step: number,
  seconds: number | null,
): Promise<StepSummary> {
  const record = await readStep(store, config.run, step);
  const manifests = record.trained.map(async (agent): Promise<[string, Manifest]> => {
    return [agent, await readManifest(store, config.run, agent, versionAfter(record))];
  });
  const groups = await readGroups(store, record);
  const summary = summarizeStep(config, record, groups, new Map(await Promise.all(manifests)), seconds);
  return seconds === null ? summary : { ...summary, usd: (await readSpending(store, config)).usd };
}

export async function readManifest(store: Store, run: string, agent: string, version: number): Promise<Manifest> {
  const key = objectKeys.manifest(run, agent, version);
  const bytes = await store.objects.get(key);
  if (!bytes) throw new MgrpoError("not-found", `${key}: no manifest of ${agent} version ${version} in the store`);
  return parseJson(Manifest, bytes, key);
}

export function suiteOf(config: RunConfig, name: string) {
  const suite = config.evaluation.suites.find((one) => one.name === name);
  if (!suite)
    throw new MgrpoError("record-damaged", `JOB of ${config.run}: no evaluation suite '${name}' in its config`);
  return suite;
}

async function getExisting(store: Store, key: TableKey) {
  const item = await store.table.get(key);
  if (!item) throw new MgrpoError("not-found", `${key.pk} ${key.sk}: no such record in the store`);
  return item;
}
