/** @file What a rollout worker knows of one group of its step. */
import type { GroupRecord, WorkerRecord } from "../../core/contracts/records.ts";

export interface Attempt {
  readonly controller: AbortController;
  readonly done: Promise<void>;
}

export interface GroupView {
  /** Rollouts that run here or were committed here. */
  readonly mine: Set<number>;
  readonly running: Map<number, Attempt>;
  /** Rollouts whose invocations killed workers: they run alone. */
  readonly lonely: Set<number>;
  record: GroupRecord | undefined;
  readAt: number;
  /** False once somebody had begun the group before it was first read here: outcomes may lie there. */
  fresh: boolean;
}

export function newGroupView(): GroupView {
  return {
    mine: new Set(),
    running: new Map(),
    lonely: new Set(),
    record: undefined,
    readAt: Number.NEGATIVE_INFINITY,
    fresh: true,
  };
}

/** What one look around reads again, however large the step is. */
const GROUPS_PER_LOOK = 16;

interface Look {
  /** The id of this worker. */
  readonly me: string;
  /** What was read before this moment is old. */
  readonly stale: number;
  /** Whether there is room for what others give back. */
  readonly looksAround: boolean;
}

/**
 * Views to read again: old ones of what runs here, since others may have decided it; and in a look around some of those where others are at
 * work, the longest unread first. What others claim meanwhile is no reason to read: a claim finds it out.
 */
export function dueViews(
  views: readonly (readonly [group: number, view: GroupView])[],
  { me, stale, looksAround }: Look,
): ReadonlySet<GroupView> {
  const open = views.flatMap(([, view]) => (view.record?.state === "finalized" ? [] : [view]));
  const running = open.filter(({ running, readAt }) => running.size > 0 && readAt < stale);
  if (!looksAround) return new Set(running);
  const others = open.filter(({ record }) => !record || isElsewhere(record, me));
  return new Set([...running, ...others.toSorted((a, b) => a.readAt - b.readAt).slice(0, GROUPS_PER_LOOK)]);
}

function isElsewhere({ claims = {}, rollouts }: GroupRecord, me: string): boolean {
  return Object.entries(claims).some(([k, worker]) => worker !== me && !rollouts[k]);
}

/**
 * The groups in the order in which one of an agent's workers reaches for them: of n workers the i-th begins with groups i, i + n, i + 2n,
 * so that not all reach for the same, and the first groups, which are trained on first, are begun first.
 */
export function inTurn<T>(me: string, agent: string, workers: readonly WorkerRecord[], groups: readonly T[]): T[] {
  const peers = workers.filter((worker) => worker.agent === agent && worker.state === "alive");
  const names = peers.filter(({ roles }) => roles.includes("rollout")).map(({ worker }) => worker);
  const all = [...new Set([...names, me])].sort();
  const turns = all.map((_, i) => groups.filter((_group, g) => g % all.length === i));
  const mine = all.indexOf(me);
  return [...turns.slice(mine), ...turns.slice(0, mine)].flat();
}
