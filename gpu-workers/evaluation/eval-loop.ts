/**
 * @file Evaluation alongside training: leases jobs one at a time, the oldest team first. Suites that are due only before and after training
 * (`when: ends`) wait until the run has finished, and then come last.
 *
 *     queued ──lease──> leased ──EvaluationResult committed──> (record-evaluation) done
 *       ^                 ├── its worker dies ──> leased by another, which adopts the existing outcomes
 *       '─────────────────┴── its worker stops, fails, hangs or is declared dead, or the run is halted
 *
 * A job whose worker died, hung, was declared dead or failed (`isCrash`) may have suspects, which run alone
 * (core/training/evaluation-suspects.ts).
 *
 *     a lease   waits for: a queued job, or one of a dead worker      unblocked by: enqueue-evaluation, the end of a lease
 */
import { linkSignals } from "../../core/any-signal.ts";
import { TeamManifest } from "../../core/contracts/checkpoint.ts";
import type { EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { JobRecord } from "../../core/contracts/records.ts";
import { type ErrorCode, isMgrpoError, MgrpoError, refusalOf } from "../../core/errors.ts";
import type { Scorer } from "../../core/scorer.ts";
import { crashLimit } from "../../core/training/abandon-rollouts.ts";
import { dueJobs, dueSuites, runsOnlyAtEnds } from "../../core/training/evaluation.ts";
import { inFlightNames, namesOfJob, suspectsAfter } from "../../core/training/evaluation-suspects.ts";
import { leaseJob, releaseJob } from "../../core/training/job-writes.ts";
import type { Checkpoints } from "../checkpoints.ts";
import type { AppParts } from "../gateway/gateway-service.ts";
import { haltIfRefused } from "../halt.ts";
import { recordBytes } from "../identity.ts";
import type { Membership } from "../liveness/membership.ts";
import type { WorkerObserver } from "../liveness/observer.ts";
import type { StepWatch } from "../liveness/watch.ts";
import type { HostedAgent } from "../rollouts/agent.ts";
import type { RunContext } from "../run-context.ts";
import { evaluateTeam } from "./evaluate.ts";
import { type CrashHistory, RolloutsInFlight } from "./suspects-first.ts";

export interface EvalRole {
  readonly run: RunContext;
  /** The whole team, by name. Nothing else in this process uses its policies: they are closed while no job can be leased. */
  readonly agents: ReadonlyMap<string, HostedAgent>;
  scorerOf(suite: EvaluationSuite): Scorer | Promise<Scorer>;
  readonly checkpoints: Checkpoints;
  /** Of this worker. */
  readonly membership: Pick<Membership, "id" | "end" | "setInFlight">;
  /** The app that runs the rollouts. Absent: this program does. */
  readonly app?: AppParts;
  readonly observer: WorkerObserver;
  readonly watch: StepWatch;
  /** Whether to return as soon as no job is due, not even one that another worker has leased: another run may need this worker. */
  readonly untilIdle: boolean;
}

/**
 * Evaluates until the run is over and all its jobs are done, or, with `untilIdle`, until no job is due. Also returns when the run is
 * halted, even during a job, by anyone or by this job (a service's refusal, a judge's outage). Rejects with `canceled` when the signal aborts.
 */
export async function runEvaluations(role: EvalRole, signal: AbortSignal): Promise<void> {
  const { run, agents, membership, watch, untilIdle } = role;
  const evaluated = new Set<string>();
  while (!signal.aborted) {
    const jobs = await readJobs(run);
    const { status, step } = (await watch.refresh()).run;
    if (status === "halted") return;
    const due = dueJobs(run.config, status, jobs);
    if (untilIdle && due.length === 0) return;
    const next = await firstLeasable(
      role,
      // A job that this worker has evaluated and still owns awaits record-evaluation; one that it no longer owns was reopened or released.
      due.filter(({ job, owner }) => owner !== membership.id || !evaluated.has(job)),
    );
    if (next) {
      if (await leaseAndEvaluate(role, next, signal)) evaluated.add(next.job);
    } else if (status === "finished" && isOver(run, step, jobs)) {
      return;
    } else {
      // No job can be leased now: until one can, the trainers have the memory.
      await Promise.all([...agents.values()].map(({ policy }) => policy.close()));
      await run.store.clock.sleep(10 * run.config.liveness.pollSeconds, signal);
    }
  }
  throw new MgrpoError("canceled", "the worker is stopping");
}

/** The first job that is queued, this worker's own, or a dead worker's. */
async function firstLeasable(
  { membership: { id }, observer }: EvalRole,
  due: readonly JobRecord[],
): Promise<JobRecord | undefined> {
  if (due.some(({ state, owner }) => state === "leased" && owner !== id)) await observer.refresh();
  return due.find(({ state, owner }) => state === "queued" || owner === id || observer.isDead(owner));
}

/** The job's rollouts that its dead owner, if it has one, had in flight. */
function inFlightAtDeath({ membership: { id }, observer }: EvalRole, { job, owner }: JobRecord): string[] {
  const dead = observer.workers().find(({ worker }) => worker === owner && worker !== id);
  return namesOfJob(job, dead?.inFlight ?? []);
}

/**
 * False: another worker leased the job first. A halt of the run cancels the evaluation and releases the job. A failure also releases the job;
 * unless it halts the run, it is rethrown and ends this process. A failure that is a crash (`isCrash`) makes suspects of the rollouts in
 * flight, and so does a hung engine or an owner that is declared dead.
 */
async function leaseAndEvaluate(role: EvalRole, job: JobRecord, signal: AbortSignal): Promise<boolean> {
  const { run, membership, watch } = role;
  const { table } = run.store;
  const limit = crashLimit(run.config);
  const suspects = suspectsAfter(job.suspects, inFlightAtDeath(role, job), limit);
  const { item } = await table.update(leaseJob(job, membership.id, suspects));
  if (item?.["owner"] !== membership.id) return false;
  const leased = parse(JobRecord, item, `JOB ${job.job}`);
  const ended = new AbortController();
  const halted = whenHalted(watch, ended.signal);
  const { signal: until, unlink } = linkSignals(signal, halted);
  // The first worker of a job records nothing: these writes would cost more than a second crash does.
  const record = (names: readonly string[]) => membership.setInFlight(inFlightNames(job.job, names));
  const inFlight = new RolloutsInFlight(leased.fence > 1 ? record : undefined);
  try {
    await evaluateJob(role, leased, { suspects: leased.suspects ?? {}, limit, inFlight }, until);
  } catch (error) {
    const hasCrashed = until.aborted ? membership.end !== undefined : isCrash(error);
    const inFlightAtCrash = hasCrashed ? inFlight.names : [];
    const release = releaseJob(leased, membership.id, suspectsAfter(leased.suspects, inFlightAtCrash, limit));
    // If this write fails, another worker leases the job once this one is declared dead.
    await table
      .update(release)
      .catch((cause) => run.log.warn("job not released", { job: job.job, error: String(cause) }));
    const isCanceled = halted.aborted && isMgrpoError(error, "canceled");
    if (!isCanceled && !(await haltIfRefused(run, error, "evaluation"))) throw error;
  } finally {
    unlink();
    ended.abort();
  }
  return true;
}

/** Failures that say nothing about the rollouts in flight: a cancellation, a halted run, and faults of the store, the disk or the hub. */
const NO_CRASH: readonly ErrorCode[] = [
  "canceled",
  "run-halted",
  "store-unreachable",
  "disk-full",
  "storage-unwritable",
  "hub-unavailable",
  "hub-refused",
];

/** Whether a rollout in flight may be the cause of the failure, and would cause it again in another worker. */
const isCrash = (error: unknown) => !isMgrpoError(error, ...NO_CRASH) && refusalOf(error) === undefined;

/** Aborts when the run is halted, unless `ended` aborts first. */
function whenHalted(watch: StepWatch, ended: AbortSignal): AbortSignal {
  const halted = new AbortController();
  watch
    .until(({ run }) => run.status === "halted" || undefined, ended)
    .then(
      () => halted.abort(),
      () => {},
    );
  return halted.signal;
}

/** Evaluates a leased job and commits its result, unless the result is already there. */
async function evaluateJob(
  { run, agents, scorerOf, checkpoints, app }: EvalRole,
  job: JobRecord,
  crashes: CrashHistory,
  signal: AbortSignal,
): Promise<void> {
  const { objects } = run.store;
  const key = objectKeys.evaluation(run.name, job.job);
  if ((await objects.head(key)) !== undefined) return;
  const suite = run.config.evaluation.suites.find(({ name }) => name === job.suite);
  const teamKey = objectKeys.team(run.name, job.team);
  const bytes = await objects.get(teamKey);
  if (!suite || !bytes)
    throw new MgrpoError("record-damaged", `JOB ${job.job}: no suite '${job.suite}', or ${teamKey} is missing`);
  const team = parseJson(TeamManifest, bytes, teamKey);
  await checkpoints.verifyTeam(team);
  const scorer = await scorerOf(suite);
  const { fence } = job;
  const task = { run, agents, scorer, job: job.job, team, suite, resumed: fence > 1, crashes, ...(app && { app }) };
  const result = await evaluateTeam(task, signal);
  await objects.commit(key, recordBytes(result));
  const { n, correct, interval, lost, seconds } = result;
  run.log.info("evaluated", { team: job.team, suite: job.suite, n, correct, interval, lost: lost.length, seconds });
}

async function readJobs(run: RunContext): Promise<JobRecord[]> {
  const items = await run.store.table.query(tableKeys.run(run.name).pk, tablePrefixes.jobs);
  return items
    .map((item) => parse(JobRecord, item, `JOB of ${run.name}`))
    .sort(
      (a, b) =>
        Number(runsOnlyAtEnds(run.config, a.suite)) - Number(runsOnlyAtEnds(run.config, b.suite)) || a.team - b.team,
    );
}

/** Whether a finished run has all its jobs, the last team's included, and all are done. */
function isOver({ config }: RunContext, lastTeam: number, jobs: readonly JobRecord[]): boolean {
  const last = jobs.filter(({ team }) => team === lastTeam);
  return (
    last.length >= dueSuites(config, lastTeam, lastTeam, true).length && jobs.every(({ state }) => state === "done")
  );
}
