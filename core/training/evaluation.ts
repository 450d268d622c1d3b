/**
 * @file Which teams are evaluated, on which suites, and as which jobs. Team 0 and the last team always are. In between, `evaluation.every`
 * names every n-th team, or the first team after each share of the run. Which team is the first after a share depends on the sampled tokens, so
 * the plan of each step records the newest one (`dueTeam`), and every process reads it there.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { EvaluationSuite } from "../contracts/evaluation-suite.ts";
import { tableKeys } from "../contracts/keys.ts";
import { parse } from "../contracts/parse.ts";
import { type JobRecord, type RunRecord, StepRecord } from "../contracts/records.ts";
import { MgrpoError } from "../errors.ts";
import type { Hash, Table } from "../ports.ts";
import { accuracyInterval } from "./confidence-interval.ts";
import { runShareAt } from "./progress.ts";

/** Shares closer than this are equal: k / steps and k · every differ by rounding. */
const ROUNDING = 1e-9;

/**
 * What a step's plan records as `dueTeam`: the team that the step produces if the run's share at its end is the first to reach a multiple of
 * `evaluation.every`, otherwise what the step before recorded, or 0. Of the sampled tokens, only `sampledBefore` counts: the step's own are not
 * known yet. Undefined if `every` is not a share of the run.
 */
export function dueTeamAfter(
  config: RunConfig,
  step: Pick<StepRecord, "step" | "sampledBefore">,
  previous: Pick<StepRecord, "step" | "sampledBefore" | "dueTeam"> | undefined,
): number | undefined {
  const { every } = config.evaluation;
  if (every === 0 || every >= 1) return undefined;
  const multiplesAt = ({ step: number, sampledBefore }: Pick<StepRecord, "step" | "sampledBefore">) =>
    Math.floor(runShareAt(config, { step: number + 1, sampledBefore }) / every + ROUNDING);
  const before = previous === undefined ? 0 : multiplesAt(previous);
  return multiplesAt(step) > before ? step.step + 1 : (previous?.dueTeam ?? 0);
}

/** The newest team up to this one that is evaluated during training, by `evaluation.every`; 0 if none is. */
export async function readDueTeam(table: Pick<Table, "get">, config: RunConfig, team: number): Promise<number> {
  const { every } = config.evaluation;
  if (every >= 1) return team - (team % every);
  if (every === 0 || team === 0) return 0;
  const item = await table.get(tableKeys.step(config.run, team - 1));
  const name = `STEP ${team - 1} of ${config.run}`;
  if (!item) throw new MgrpoError("record-damaged", `${name} is missing: it says whether team ${team} is evaluated`);
  return parse(StepRecord, item, name).dueTeam ?? 0;
}

/** The suites that a team is evaluated on. `team`: how many steps had closed before it. `dueTeam`: what `readDueTeam` says about it. */
export function dueSuites(
  config: RunConfig,
  team: number,
  dueTeam: number,
  isLast = team === config.steps,
): EvaluationSuite[] {
  const isEnd = team === 0 || isLast;
  const isDue = isEnd || team === dueTeam;
  return isDue ? config.evaluation.suites.filter(({ when }) => isEnd || when === "every") : [];
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
