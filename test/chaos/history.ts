/**
 * @file The history of a trial: every request on every channel, with the answer that its target gave, whether or not the caller saw that
 * answer. The checker reads only what `Trial` has.
 */
import type { WaitLimits } from "./limits.ts";
import type { Payment } from "./payments.ts";
import type { Channel, Death, FaultKind } from "./schedule.ts";
import type { Starvation } from "./starvation.ts";
import type { Attribute, StoreWrite } from "./writes.ts";

export interface Entry {
  /**
   * Milliseconds since the trial began, when the request was passed on and when its answer came back. For one that hangs: when it came and
   * when its caller abandoned it. For any other that is not passed on: equal.
   */
  readonly sentAt: number;
  readonly answeredAt: number;
  readonly process: string;
  readonly channel: Channel;
  readonly method: string;
  readonly path: string;
  /** What happened to it on the way. */
  readonly fault: FaultKind | undefined;
  /** 0: there is no answer. */
  readonly status: number;
  /** What a write that took effect made true, each at most once in a run: see `factsOf`. */
  readonly facts: readonly string[];
  /** The same for a write whose target died during it: it may have taken effect. */
  readonly possible?: readonly string[];
  /** What a write that took effect did to a lease. */
  readonly lease?: LeaseChange;
  /** The same for a write whose target died during it. */
  readonly possibleLease?: LeaseChange;
  /** What the judge's answer cost, if it is one. */
  readonly verdictMicroUsd?: number;
  /** What the answer of the priced searcher's API cost, if it is one. */
  readonly answerMicroUsd?: number;
  /** Of a request to that API. */
  readonly exchange?: Exchange;
  /** What a write that took effect paid for that API. */
  readonly payment?: Payment;
  /** The same for a write whose target died during it. */
  readonly possiblePayment?: Payment;
}

/** What the proxy saw of the caller. Times as in `Entry`. */
export interface Exchange {
  readonly receivedAt: number;
  /** When the answer was passed on, cut or lost. Absent: the target gave none. */
  readonly deliveredAt?: number;
  /** When the connection was closed, by the caller or the proxy, if this was the last request on it. */
  readonly closedAt?: number;
}

export interface LeaseGrant {
  readonly name: string;
  readonly act: "grant";
  /** For how long. Absent: for the run's lease time. */
  readonly seconds?: number;
  /** Of a claim on a verdict, whose holder asks the judge. Absent: a worker's lease, or the pause after a failure. */
  readonly claim?: { readonly madeAt: number; readonly heldUntil: number };
}

/** What a write did to a lease, by the name of its record. */
export type LeaseChange =
  | LeaseGrant
  /** release: anyone may take it. end: it is over for good. */
  | { readonly name: string; readonly act: "release" | "end" };

/**
 * The facts that a write that took effect records. A fact is something that the protocol lets happen once: an object that is committed, an
 * item that is inserted, a rollout's score, a group that is finalized, a step's state, the advance to a step, a version. An overwritten
 * object, which the protocol never allows, is a fact too.
 */
export function factsOf(write: StoreWrite): string[] {
  if (write.kind === "put") return [`${write.isCommit ? "commit" : "overwrite"} ${write.key}`];
  if (write.kind === "insert") return [`insert ${write.key}`];
  return [...write.set].flatMap(([path, value]) => updateFact(write.key, path, value));
}

function updateFact(key: string, path: string, value: Attribute): string[] {
  if (path.startsWith("rollouts.")) return [`score ${key} ${path}`];
  if (path === "finalized") return [`finalize ${key}`];
  const kind = key.split(" ")[1]?.split("#")[0];
  if (kind === "STEP" && path === "state") return [`step ${key} ${value.S}`];
  if (kind === "RUN" && path === "step") return [`advance ${key} ${value.N}`];
  if (kind === "AGENT" && path === "version") return [`version ${key} ${value.N}`];
  return [];
}

/** A kill of a process, or a stop for `seconds`. */
export interface Strike extends Pick<Death, "process" | "signal" | "seconds"> {
  /** Milliseconds since the trial began. */
  readonly at: number;
}

/** The end of a process that was killed or exited with a code other than 0. */
export interface End {
  readonly process: string;
  /** Milliseconds since the trial began. */
  readonly at: number;
}

/** The result of a trial. */
export interface Trial {
  /** False: it had not ended at its deadline, or a process was crash-looping. */
  readonly endedInTime: boolean;
  readonly seconds: number;
  readonly runs: readonly RunResult[];
  readonly history: readonly Entry[];
  /** What the processes wrote to stderr. */
  readonly log: readonly string[];
  /** In order. */
  readonly strikes: readonly Strike[];
  readonly limits: WaitLimits;
  /** How often each process was started. */
  readonly starts: Readonly<Record<string, number>>;
  /** In order. */
  readonly ends: readonly End[];
  /** In order. Absent: not measured. */
  readonly starvation?: readonly Starvation[] | undefined;
}

export interface RunResult {
  readonly run: string;
  readonly status: string;
  /** Scores, finalized groups, hashes of all weights, evaluations. */
  readonly records: unknown;
  readonly judgesMicroUsd: number;
  readonly toolsMicroUsd: number;
  /** For its agents behind an API. */
  readonly agentsMicroUsd: number;
  /** The trajectories that were not sampled by the version that their step pins, each with the reason. */
  readonly foreignTrajectories: readonly string[];
}
