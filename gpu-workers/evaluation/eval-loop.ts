/**
 * @file Evaluation while training goes on: leases jobs, one at a time, the oldest team first. What is only asked at the ends waits until
 * the run has finished.
 *
 *     queued ──lease──> leased ──EvaluationResult committed──> (record-evaluation) done
 *                         └── its worker dies ──> leased by another, which adopts the outcomes that are there
 *
 *                         └── it stops, or cannot go on ──> queued
 *
 *     a lease   waits for: a queued job, or one of a dead worker      unblocked by: enqueue-evaluation, the lease time
 */
import { TeamManifest } from "../../core/contracts/checkpoint.ts";
import type { EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { JobRecord, RunRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Scorer } from "../../core/scorer.ts";
import { dueJobs, dueSuites, isOfEnds } from "../../core/training/evaluation.ts";
import { leaseJob, releaseJob } from "../../core/training/job-writes.ts";
import type { Checkpoints } from "../checkpoints.ts";
import { haltIfRefused } from "../halt.ts";
import { recordBytes } from "../identity.ts";
import type { Observer } from "../liveness/observer.ts";
import type { HostedAgent } from "../rollouts/agent.ts";
import type { RunContext } from "../run-context.ts";
import { evaluate } from "./evaluate.ts";

export interface EvalRole {
  readonly run: RunContext;
  readonly agents: ReadonlyMap<string, HostedAgent>;
  scorerOf(suite: EvaluationSuite): Scorer | Promise<Scorer>;
  readonly checkpoints: Checkpoints;
  readonly worker: string;
  readonly observer: Observer;
  /** Ends as soon as nothing is left to evaluate for now: another run may need this worker. */
  readonly untilIdle: boolean;
}

/**
 * Evaluates until the run is over and all its jobs are done (or, `untilIdle`, those that can be taken), or it is halted (a spent
 * budget pays for no evaluations either, nor does a service that refuses to work); rejects with `cancelled` when the signal aborts before.
 */
export async function runEvaluations(role: EvalRole, signal: AbortSignal): Promise<void> {
  const { run, worker, observer, untilIdle } = role;
  const { table, clock } = run.store;
  const evaluated = new Set<string>();
  while (!signal.aborted) {
    const jobs = await readJobs(run);
    const { status, step } = parse(RunRecord, await table.get(tableKeys.run(run.name)), `record of run '${run.name}'`);
    if (status === "halted") return;
    const open = dueJobs(run.config, status, jobs);
    if (untilIdle && open.length === 0) return;
    const due = open.filter(({ job }) => !evaluated.has(job));
    if (due.some(({ state, owner }) => state === "leased" && owner !== worker)) await observer.look();
    const next = due.find(({ state, owner }) => state === "queued" || owner === worker || observer.isDead(owner));
    if (next) {
      const { item } = await table.update(leaseJob(next, worker));
      if (item?.["owner"] !== worker) continue;
      const leased = parse(JobRecord, item, `JOB ${next.job}`);
      await work(role, leased, signal).catch(async (error: unknown) => {
        await table.update(releaseJob(leased, worker));
        if (!(await haltIfRefused(run, error, "evaluation"))) throw error;
      });
      evaluated.add(next.job);
    } else if (status === "finished" && isOver(run, step, jobs)) {
      return;
    } else {
      await clock.sleep(10 * run.config.liveness.pollSeconds, signal);
    }
  }
  throw new MgrpoError("cancelled", "the worker is stopping");
}

async function work(
  { run, agents, scorerOf, checkpoints }: EvalRole,
  job: JobRecord,
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
  await checkpoints.confirm(team);
  const scorer = await scorerOf(suite);
  const result = await evaluate({ run, agents, scorer, job: job.job, team, suite, resumed: job.fence > 1 }, signal);
  await objects.commit(key, recordBytes(result));
  const { n, correct, interval, lost, seconds } = result;
  run.log.info("evaluated", { team: job.team, suite: job.suite, n, correct, interval, lost: lost.length, seconds });
}

async function readJobs(run: RunContext): Promise<JobRecord[]> {
  const items = await run.store.table.query(tableKeys.run(run.name).pk, tablePrefixes.jobs);
  return items
    .map((item) => parse(JobRecord, item, `JOB of ${run.name}`))
    .sort((a, b) => Number(isOfEnds(run.config, a.suite)) - Number(isOfEnds(run.config, b.suite)) || a.team - b.team);
}

/** Of a finished run: the last team's jobs, which come last, are there and done like all others. */
function isOver({ config }: RunContext, lastTeam: number, jobs: readonly JobRecord[]): boolean {
  const last = jobs.filter(({ team }) => team === lastTeam);
  return last.length >= dueSuites(config, lastTeam, true).length && jobs.every(({ state }) => state === "done");
}
