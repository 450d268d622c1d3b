/** @file What a rollout worker knows of one group of its step. */
import type { GroupRecord } from "../../core/contracts/records.ts";

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
  const open = views.flatMap(([, view]) => (view.record?.state === "sealed" ? [] : [view]));
  const running = open.filter(({ running, readAt }) => running.size > 0 && readAt < stale);
  if (!looksAround) return new Set(running);
  const others = open.filter(({ record }) => !record || isElsewhere(record, me));
  return new Set([...running, ...others.toSorted((a, b) => a.readAt - b.readAt).slice(0, GROUPS_PER_LOOK)]);
}

function isElsewhere({ claims = {}, rollouts }: GroupRecord, me: string): boolean {
  return Object.entries(claims).some(([k, worker]) => worker !== me && !rollouts[k]);
}

/** The same list from a place in it on, a share in [0, 1), and round to there again. */
export function startingAt<T>(place: number, list: readonly T[]): T[] {
  const first = Math.floor(place * list.length);
  return [...list.slice(first), ...list.slice(0, first)];
}
