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
