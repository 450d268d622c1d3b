/**
 * @file Follows a run through its records: every closed step, every finished evaluation, what it waits for, and its end. Only reads,
 * so watching a run never changes it.
 *
 *     waits for / unblocked by
 *     next step        RUN.step moves on: tick closed a step (all manifests are there)
 *     evaluation       JOB is `done`: record-evaluation
 *     end              RUN is `halted`, or `finished` and every evaluation that is due is done
 */

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
import { MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import { readBills } from "../../core/training/bills.ts";
import { type Spending, spending } from "../../core/training/budget.ts";
import { dueSuites } from "../../core/training/evaluation.ts";
import { evaluationOf, type TeamEvaluation } from "../run-report.ts";
import { type StepSummary, summarizeStep } from "../step-summary.ts";
import { waitingFor } from "../waiting.ts";

export type RunEvent =
  | { readonly kind: "step"; readonly summary: StepSummary }
  | { readonly kind: "evaluation"; readonly evaluation: TeamEvaluation }
  | { readonly kind: "waiting"; readonly step: number; readonly for: string }
  | { readonly kind: "ended"; readonly status: "finished" | "halted"; readonly reason: string };

/** Time between two looks at more than the RUN record: what the run waits for costs a dozen reads of a store that is at work. */
const LOOK_SECONDS = 2;

export interface FollowOptions {
  /** Steps that are known already. */
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
  const reported = new Set<string>();
  let next = from;
  let since = store.clock.monotonic();
  let looked = Number.NEGATIVE_INFINITY;
  let first: number | undefined;
  while (!signal.aborted) {
    const run = await readRun(store, config.run);
    first ??= run.step;
    const now = store.clock.monotonic();
    const seconds = (now - since) / Math.max(1, run.step - Math.max(next, first));
    if (run.step > next) since = now;
    for (; next < run.step; next++) {
      yield { kind: "step", summary: await readSummary(store, config, next, next < first ? null : seconds) };
    }
    if (run.status === "running" && now - looked < LOOK_SECONDS) {
      await store.clock.sleep(pollSeconds, signal);
      continue;
    }
    looked = now;
    const jobs = await readJobs(store, config.run);
    for (const job of jobs) {
      if (job.state !== "done" || reported.has(job.job)) continue;
      reported.add(job.job);
      yield { kind: "evaluation", evaluation: evaluationOf(suiteOf(config, job.suite), job) };
    }
    if (run.status === "halted") return yield { kind: "ended", status: "halted", reason: run.reason };
    const wait = await waitOf(store, config, run, jobs);
    if (wait === undefined) return yield { kind: "ended", status: "finished", reason: "" };
    yield { kind: "waiting", step: run.step, for: wait };
    await store.clock.sleep(pollSeconds, signal);
  }
}

/** What a run that is not halted waits for; undefined once it is finished and evaluated. */
async function waitOf(
  store: Store,
  config: RunConfig,
  run: RunRecord,
  jobs: readonly JobRecord[],
): Promise<string | undefined> {
  if (run.status === "running") return waitingFor(config, await readState(store, config, run));
  const pending = pendingEvaluations(config, run.step, jobs);
  return pending.length > 0 ? `evaluating ${pending.join(", ")}` : undefined;
}

/** What it waits for now; undefined when it is over. */
export async function readWait(store: Store, config: RunConfig): Promise<string | undefined> {
  const run = await readRun(store, config.run);
  return run.status === "halted" ? undefined : waitOf(store, config, run, await readJobs(store, config.run));
}

/** Fleets whose instances would not serve the run, and why. */
export async function readRefusals(store: Store, run: string) {
  const fleets = await store.table.query(tableKeys.run(run).pk, tablePrefixes.fleets);
  return fleets.flatMap((item) => {
    const { fleet, refusal } = parse(FleetRecord, item, `FLEET of ${run}`);
    return refusal ? [{ fleet, ...refusal }] : [];
  });
}

/** Evaluations of a finished run that have no score yet. */
function pendingEvaluations(config: RunConfig, last: number, jobs: readonly JobRecord[]): string[] {
  const teams = Array.from({ length: last + 1 }, (_, team) => team);
  return teams.flatMap((team) =>
    dueSuites(config, team, team === last)
      .filter(({ name }) => !jobs.some((job) => job.team === team && job.suite === name && job.state === "done"))
      .map(({ name }) => `${name} of team ${team}`),
  );
}

export async function readRun(store: Store, run: string): Promise<RunRecord> {
  return parse(RunRecord, await needed(store, tableKeys.run(run)), `RUN ${run}`);
}

export async function readStep(store: Store, run: string, step: number): Promise<StepRecord> {
  return parse(StepRecord, await needed(store, tableKeys.step(run, step)), `STEP ${step} of ${run}`);
}

export async function readGroups(store: Store, step: StepRecord): Promise<GroupRecord[]> {
  const items = await store.table.getAll(step.groups.map((_, group) => tableKeys.group(step.run, step.step, group)));
  return items.flatMap((item, group) =>
    item ? [parse(GroupRecord, item, `GROUP ${step.step}/${group} of ${step.run}`)] : [],
  );
}

export async function readJobs(store: Store, run: string): Promise<JobRecord[]> {
  const items = await store.table.query(tableKeys.run(run).pk, tablePrefixes.jobs);
  return items.map((item) => parse(JobRecord, item, `JOB of ${run}`));
}

/** Scores of the evaluations that are done. */
export async function readEvaluations(store: Store, config: RunConfig): Promise<TeamEvaluation[]> {
  const done = (await readJobs(store, config.run)).filter(({ state }) => state === "done");
  return done.map((job) => evaluationOf(suiteOf(config, job.suite), job));
}

/** What the run has cost so far, the hours since it began left out. */
export async function readSpending(store: Store, config: RunConfig): Promise<Omit<Spending, "hours">> {
  const workers = (await store.table.query(tableKeys.run(config.run).pk, tablePrefixes.workers)).map((worker) =>
    parse(WorkerRecord, worker, `WORKER of ${config.run}`),
  );
  const bills = await readBills(store.table, config.run);
  const { hours: _, ...spent } = spending(config, await readRun(store, config.run), workers, bills, 0);
  return spent;
}

async function readState(store: Store, config: RunConfig, run: RunRecord) {
  const { pk } = tableKeys.run(config.run);
  const [item, agents, workers] = await Promise.all([
    store.table.get(tableKeys.step(config.run, run.step)),
    store.table.query(pk, tablePrefixes.agents),
    store.table.query(pk, tablePrefixes.workers),
  ]);
  const step = item && parse(StepRecord, item, `STEP ${run.step} of ${config.run}`);
  return {
    step,
    groups: step ? await readGroups(store, step) : [],
    agents: agents.map((agent) => parse(AgentRecord, agent, `AGENT of ${config.run}`)),
    workers: workers.map((worker) => parse(WorkerRecord, worker, `WORKER of ${config.run}`)),
  };
}

/** What a closed step came to. */
export async function readSummary(
  store: Store,
  config: RunConfig,
  step: number,
  seconds: number | null,
): Promise<StepSummary> {
  const record = await readStep(store, config.run, step);
  const manifests = record.trained.map(async (agent): Promise<[string, Manifest]> => {
    const version = (record.policy[agent] ?? 0) + 1;
    return [agent, await readManifest(store, config.run, agent, version)];
  });
  return summarizeStep(config, record, await readGroups(store, record), new Map(await Promise.all(manifests)), seconds);
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

async function needed(store: Store, key: TableKey) {
  const item = await store.table.get(key);
  if (!item) throw new MgrpoError("not-found", `${key.pk} ${key.sk}: no such record in the store`);
  return item;
}
