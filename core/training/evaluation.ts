/** @file Which teams are evaluated, on which suites, and as which jobs. Team 0 and the last team always are. */
import type { RunConfig } from "../contracts/config.ts";
import type { EvaluationSuite } from "../contracts/evaluation-suite.ts";
import type { JobRecord, RunRecord } from "../contracts/records.ts";
import type { Hash } from "../ports.ts";
import { accuracyInterval } from "./confidence-interval.ts";

/** The suites that a team is evaluated on. `team`: how many steps had closed before it. */
export function dueSuites(config: RunConfig, team: number, isLast = team === config.steps): EvaluationSuite[] {
  const { every, suites } = config.evaluation;
  const isEnd = team === 0 || isLast;
  const isDue = isEnd || (every > 0 && team % every === 0);
  return isDue ? suites.filter(({ when }) => isEnd || when === "every") : [];
}

/**
 * The open jobs that workers may do now, leased ones included. Suites that run only before and after training wait until it ends, so that
 * they take no machine time from it.
 */
export function dueJobs(config: RunConfig, status: RunRecord["status"], jobs: readonly JobRecord[]): JobRecord[] {
  if (status === "halted") return [];
  const open = jobs.filter(({ state }) => state !== "done");
  return status === "finished" ? open : open.filter(({ suite }) => !runsOnlyAtEnds(config, suite));
}

/** Whether a suite runs only before and after training. */
export function runsOnlyAtEnds({ evaluation }: RunConfig, suite: string): boolean {
  return evaluation.suites.some(({ name, when }) => name === suite && when === "ends");
}

/** The step in the addresses of a team's evaluation rollouts, which names their random streams. */
export function addressStep({ evaluation }: RunConfig, team: number): number {
  return (evaluation.firstTeam ?? 0) + team;
}

/** A job's id. The same team and suite have the same id, however often the team manifest's event is delivered. */
export function jobId(teamSha256: string, suite: EvaluationSuite, hash: Hash): string {
  return `${suite.name}-${hash(`${teamSha256} ${suite.name}`).slice(0, 16)}`;
}

/** The queued jobs of a team, one per suite. */
export function newJobs(
  { run }: RunConfig,
  team: number,
  suites: readonly EvaluationSuite[],
  teamSha256: string,
  hash: Hash,
): JobRecord[] {
  return suites.map((suite) => ({
    run,
    job: jobId(teamSha256, suite, hash),
    team,
    suite: suite.name,
    state: "queued",
    owner: "",
    fence: 0,
    n: 0,
    correct: 0,
    runs: [],
    interval: accuracyInterval([]),
  }));
}
