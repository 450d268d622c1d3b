/** @file Reads a run's records from its store, each checked by its schema. */
import { statfs } from "node:fs/promises";
import { Manifest } from "../../core/contracts/checkpoint.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { parseDeployment } from "../../core/contracts/deployment.ts";
import { FleetRecord } from "../../core/contracts/fleet-record.ts";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { EvaluationResult } from "../../core/contracts/messages.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import {
  AgentRecord,
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
import { type StepSummary, summarizeStep } from "../../core/monitoring/step-summary.ts";
import { evaluationOf, sortEvaluations, type TeamEvaluation } from "../../core/monitoring/team-evaluation.ts";
import type { Store } from "../../core/ports.ts";
import { readApiSpending } from "../../core/training/api-spending.ts";
import { isGivenUp, MAX_CAPACITY_REQUESTS } from "../../core/training/fleets.ts";
import { completedAt } from "../../core/training/retention.ts";
import { type Spending, spending } from "../../core/training/run-budget.ts";
import { versionAfter } from "../../core/training/step-plan.ts";
import { MGRPO } from "../terminal/name.ts";
import { findRun } from "./run-folder.ts";

/** The probe of each server that trains an agent with the server's own optimizer. */
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

/**
 * Fleets whose instances refused to serve the run, and why. Unless the run is halted, also evaluation fleets that it gave up on: that does not
 * halt it.
 */
export async function readRefusals(store: Store, run: string) {
  const items = await store.table.query(tableKeys.run(run).pk, tablePrefixes.fleets);
  if (items.length === 0) return [];
  const fleets = items.map((item) => parse(FleetRecord, item, `FLEET of ${run}`));
  const refused = fleets.flatMap(({ fleet, refusal }) => (refusal ? [{ fleet, ...refusal }] : []));
  const record = await readRun(store, run);
  if (record.status === "halted") return refused;
  const found = { record, jobs: await readJobs(store, run), fleets };
  const deployed = parseDeployment(await store.table.get(tableKeys.deployment))?.fleets ?? [];
  const givenUp = deployed.filter((fleet) => fleet.agent === "*" && isGivenUp(found, fleet));
  return [...refused, ...givenUp.map(({ name, release }) => ({ fleet: name, release, reason: givenUpReason(name) }))];
}

const givenUpReason = (fleet: string): string =>
  `they came up ${MAX_CAPACITY_REQUESTS} times without completing an evaluation; ` +
  `the newest logs under logs/${fleet}/ in the bucket say why; fix it, then launch the run again`;

export async function readRun(store: Store, run: string): Promise<RunRecord> {
  const item = await store.table.get(tableKeys.run(run));
  if (item) return parse(RunRecord, item, `RUN ${run}`);
  const advice = `unless a process is starting it, \`${MGRPO} resume ${run}\` begins it`;
  throw new MgrpoError("not-found", `run '${run}' has not begun, so its store has no record of it: ${advice}`);
}

export async function readStep(store: Store, run: string, step: number): Promise<StepRecord> {
  const key = tableKeys.step(run, step);
  const item = await store.table.get(key);
  if (!item) throw new MgrpoError("not-found", `${key.pk} ${key.sk}: no such record in the store`);
  return parse(StepRecord, item, `STEP ${step} of ${run}`);
}

/** As `readStep`, for a step that the user typed: the error says that the run has not begun it. */
export async function readBegunStep(store: Store, run: string, step: number): Promise<StepRecord> {
  const item = await store.table.get(tableKeys.step(run, step));
  if (item) return parse(StepRecord, item, `STEP ${step} of ${run}`);
  throw new MgrpoError("not-found", `run '${run}' has not begun step ${step}: steps count from 0`);
}

/** @param wanted indices of groups; undefined: all. Expired groups are left out. */
export async function readGroups(store: Store, step: StepRecord, wanted?: readonly number[]): Promise<GroupRecord[]> {
  const indices = wanted ?? step.groups.map((_, group) => group);
  const items = await store.table.getAll(indices.map((group) => tableKeys.group(step.run, step.step, group)));
  return items.flatMap((item, i) =>
    item ? [parse(GroupRecord, item, `GROUP ${step.step}/${indices[i]} of ${step.run}`)] : [],
  );
}

/** When the last group of a step was complete, in ms by the store's clock; undefined if that is not recorded. */
export async function readScoredAt(store: Store, run: string, step: number): Promise<number | undefined> {
  const groups = await readGroups(store, await readStep(store, run, step));
  const times = groups.flatMap(({ expiresAt }) => (expiresAt === undefined ? [] : [completedAt(expiresAt)]));
  return times.length > 0 ? Math.max(...times) : undefined;
}

/** How many of the newest closed steps `readStepSeconds` times. */
const TIMED_STEPS = 3;

/**
 * About how long a step takes, in seconds: the shortest time between the last scores of two consecutive steps, over a few steps before `open`.
 * The shortest, since a halt lengthens a step. Undefined if the records do not say.
 */
export async function readStepSeconds(store: Store, run: string, open: number): Promise<number | undefined> {
  const steps = Array.from({ length: Math.min(open, TIMED_STEPS + 1) }, (_, i) => open - 1 - i);
  const ends = await Promise.all(steps.map((step) => readScoredAt(store, run, step)));
  const seconds = ends.flatMap((end, i) => {
    const start = ends[i + 1];
    return end === undefined || start === undefined ? [] : (end - start) / 1000;
  });
  return seconds.length > 0 ? Math.min(...seconds) : undefined;
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

/** The result of a finished evaluation. */
export async function readResult({ objects }: Store, { run, job }: JobRecord): Promise<EvaluationResult> {
  const key = objectKeys.evaluation(run, job);
  const bytes = await objects.get(key);
  if (!bytes) throw new MgrpoError("not-found", `${key}: its job is done, but it is not in the store`);
  return parseJson(EvaluationResult, bytes, key);
}

/** What the run has cost so far, worker hours included. Leaves out `hours`, the time since it started. */
export async function readSpending(store: Store, config: RunConfig): Promise<Omit<Spending, "hours">> {
  const run = await readRun(store, config.run);
  const workers = (await store.table.query(tableKeys.run(config.run).pk, tablePrefixes.workers)).map((worker) =>
    parse(WorkerRecord, worker, `WORKER of ${config.run}`),
  );
  const apiSpending = await readApiSpending(store.table, config.run);
  const { hours: _, ...spent } = spending(config, run, workers, apiSpending, 0);
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

/**
 * The summary of a closed step; undefined once one of its groups has expired: a mean over the rest would mislead.
 * `seconds`: how long the step took; null if that is unknown, as for a step that is read later. `usd` is then left out, since
 * today's spending is not the spending at the step's end.
 */
export async function readSummary(
  store: Store,
  config: RunConfig,
  step: number,
  seconds: number | null,
): Promise<StepSummary | undefined> {
  const record = await readStep(store, config.run, step);
  const groups = await readGroups(store, record);
  if (groups.length < record.groups.length) return undefined;
  const manifests = record.trained.map(async (agent): Promise<[string, Manifest]> => {
    return [agent, await readManifest(store, config.run, agent, versionAfter(record))];
  });
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
