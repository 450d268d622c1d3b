/** @file What the records and the disk say about a run now, and what it may be waiting for. */
import type { AgentRecord, GroupRecord, StepRecord, WorkerRecord } from "../contracts/records.ts";
import type { ToolSpendingRecord } from "../contracts/spending.ts";

/**
 * `certain`: the records prove that the run waits for it. `likely`: they show that it holds the run up, or soon will. `possible`: it
 * may just need more time.
 */
export type Likelihood = "certain" | "likely" | "possible";

export interface Cause {
  /** What holds the run up, as a clause, such as `no worker of 'main' can train`. */
  readonly what: string;
  /** What ends the wait, as a clause that follows "ends when". */
  readonly ends: string;
  readonly likelihood: Likelihood;
  /** Processes are at work, so this is a problem only if it takes too long. */
  readonly isAtWork?: true;
}

export interface RunState {
  readonly step: StepRecord | undefined;
  readonly groups: readonly GroupRecord[];
  readonly agents: readonly AgentRecord[];
  readonly workers: readonly WorkerRecord[];
  /** Only runs with metered tools have one. */
  readonly tools?: ToolSpendingRecord | undefined;
  /** Of the file system that holds a local run. */
  readonly disk?: Disk | undefined;
}

export interface Disk {
  readonly path: string;
  readonly freeBytes: number;
  readonly totalBytes: number;
}
