/** @file What a rollout worker knows about one group of its step, and which groups it reads next and claims from first. */
import type { GroupRecord, WorkerRecord } from "../../core/contracts/records.ts";

export interface RunningAttempt {
  readonly controller: AbortController;
  readonly done: Promise<void>;
}

export interface LocalGroupView {
  /** Position of the group in its step. */
  readonly index: number;
  /** Rollouts that run or wait here, and those that are known to have an outcome. */
  readonly unclaimable: Set<number>;
  readonly running: Map<number, RunningAttempt>;
  /** Claimed here, but workers or engine threads ended during their attempts: they run alone. */
  readonly quarantined: Set<number>;
  /** As last read; undefined before the first read. */
  record: GroupRecord | undefined;
  /** Seconds, on the monotonic clock. */
  readAt: number;
  /** False if another worker had begun the group before the first read here: outcomes may exist already. */
  fresh: boolean;
}

export function newLocalGroupView(index: number): LocalGroupView {
  return {
    index,
    unclaimable: new Set(),
    running: new Map(),
    quarantined: new Set(),
    record: undefined,
    readAt: Number.NEGATIVE_INFINITY,
    fresh: true,
  };
}

/** Maximum number of groups that one survey reads, however large the step is. */
const GROUPS_PER_SURVEY = 16;

export interface ReadCriteria {
  /** The id of this worker. */
  readonly me: string;
  /** A view that was read before this time is stale. */
  readonly staleBefore: number;
  /** Whether to survey unread groups and those of other workers, for rollouts that are free or have been given back. */
  readonly isSurvey: boolean;
}

/**
 * Views to read: stale ones with rollouts running here, which others may have finished; and, in a survey, some of the groups that are unread
 * or where others are at work, least recently read first. New claims of others need no read: a conditional write detects them.
 */
export function dueViews(
  views: readonly LocalGroupView[],
  { me, staleBefore, isSurvey }: ReadCriteria,
): Set<LocalGroupView> {
  const open = views.filter(({ record }) => record?.state !== "finalized");
  const running = open.filter(({ running, readAt }) => running.size > 0 && readAt < staleBefore);
  if (!isSurvey) return new Set(running);
  const others = open.filter(({ record }) => !record || hasOtherClaims(record, me));
  return new Set([...running, ...others.toSorted((a, b) => a.readAt - b.readAt).slice(0, GROUPS_PER_SURVEY)]);
}

function hasOtherClaims({ claims = {}, rollouts }: GroupRecord, me: string): boolean {
  return Object.entries(claims).some(([k, worker]) => worker !== me && !rollouts[k]);
}

/**
 * The order in which a worker claims groups. The i-th of an agent's n workers starts with groups i, i + n, i + 2n, …, so workers do not
 * compete for the same groups, and the first groups, which are trained on first, start first.
 */
export function claimOrder<T>(me: string, agent: string, workers: readonly WorkerRecord[], groups: readonly T[]): T[] {
  const peers = workers.filter((worker) => worker.agent === agent && worker.state === "alive");
  const ids = peers.filter(({ roles }) => roles.includes("rollout")).map(({ worker }) => worker);
  const all = [...new Set([...ids, me])].sort();
  const shares = all.map((_, i) => groups.filter((_group, g) => g % all.length === i));
  const mine = all.indexOf(me);
  return [...shares.slice(mine), ...shares.slice(0, mine)].flat();
}
