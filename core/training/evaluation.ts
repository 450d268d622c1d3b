/** @file Which teams are evaluated, on which suites, and as which jobs. Team 0 and the last one always are. */
import type { RunConfig } from "../contracts/config.ts";
import type { EvaluationSuite } from "../contracts/evaluation-suite.ts";
import { tableKeys } from "../contracts/keys.ts";
import type { JobRecord, RunRecord } from "../contracts/records.ts";
import type { Hash } from "../ports.ts";
import { type Command, insert } from "./commands.ts";
import { accuracyInterval } from "./interval.ts";

/** The suites that team `team` (after so many closed steps) is evaluated on. */
export function dueSuites(config: RunConfig, team: number, last = team === config.steps): EvaluationSuite[] {
  const { every, suites } = config.evaluation;
  const end = team === 0 || last;
  const due = end || (every > 0 && team % every === 0);
  return due ? suites.filter(({ when }) => end || when === "every") : [];
}

/**
 * The open jobs that a worker may take now. What is only asked at the ends waits for the end: while agents train, the machine is theirs.
 */
export function dueJobs(config: RunConfig, status: RunRecord["status"], jobs: readonly JobRecord[]): JobRecord[] {
  if (status === "halted") return [];
  const open = jobs.filter(({ state }) => state !== "done");
  return status === "finished" ? open : open.filter(({ suite }) => !isOfEnds(config, suite));
}

/** Whether a suite is asked only before and after training. */
export function isOfEnds({ evaluation }: RunConfig, suite: string): boolean {
  return evaluation.suites.some(({ name, when }) => name === suite && when === "ends");
}

/** The step in the addresses of a team's evaluation rollouts, which names their random streams. */
export function addressStep({ evaluation }: RunConfig, team: number): number {
  return (evaluation.firstTeam ?? 0) + team;
}

/** A job's id: the same team and suite are the same job, however often its event comes. */
export function jobId(teamSha256: string, suite: EvaluationSuite, hash: Hash): string {
  return `${suite.name}-${hash(`${teamSha256} ${suite.name}`).slice(0, 16)}`;
}

/** Queues the jobs of a team on suites that are due. */
export function enqueueJobs(
  { run }: RunConfig,
  team: number,
  suites: readonly EvaluationSuite[],
  teamSha256: string,
  hash: Hash,
): Command[] {
  return suites.map((suite) => {
    const job: JobRecord = {
      run,
      job: jobId(teamSha256, suite, hash),
      team,
      suite: suite.name,
      state: "queued",
      owner: "",
      fence: 0,
      ...{ n: 0, correct: 0, runs: [], interval: accuracyInterval([]) },
    };
    return insert({ key: tableKeys.job(run, job.job), item: job });
  });
}
