/** @file The records of a run at one moment, and a cause why it does not advance (causes.ts). */
import type { AgentRecord, GroupRecord, StepRecord, WorkerRecord } from "../contracts/records.ts";
import type { ToolSpendingRecord } from "../contracts/spending.ts";

/**
 * `certain`: the records prove it, and the run waits for it. `likely`: they show that it holds the run up, or soon does. `possible`: it
 * takes its time, which may be what it needs.
 */
export type Likelihood = "certain" | "likely" | "possible";

export interface Cause {
  /** What is waited for, naming the process. */
  readonly what: string;
  /** What ends the wait. */
  readonly ends: string;
  readonly likelihood: Likelihood;
  /** A process is at work, so only the time that it takes may be wrong. */
  readonly isWork?: true;
}

export interface RunState {
  readonly step: StepRecord | undefined;
  readonly groups: readonly GroupRecord[];
  readonly agents: readonly AgentRecord[];
  readonly workers: readonly WorkerRecord[];
  /** Only runs with paid tools have one. */
  readonly tools?: ToolSpendingRecord | undefined;
  /** Of the file system that holds a run of this machine. */
  readonly disk?: Disk | undefined;
}

export interface Disk {
  readonly path: string;
  readonly freeBytes: number;
  readonly totalBytes: number;
}
