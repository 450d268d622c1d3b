/**
 * @file The ports: everything that the pure core needs from outside. Each is small, and its comments are its contract. The store, the
 * controls and the policy engines also have suites in test/contracts, which every adapter passes.
 */
import type { z } from "zod";
import type { Conversation } from "./contracts/conversation.ts";
import type { Judgment } from "./contracts/judge.ts";
import type { TableKey } from "./contracts/keys.ts";
import type { ObjectCreated } from "./contracts/messages.ts";
import type { Question } from "./contracts/question.ts";
import type { InvocationReport, InvocationRequest, RolloutAddress } from "./contracts/rollout.ts";

export type { Completion, CompletionRequest, LanguageModel, TokenUsage } from "./language-model-ports.ts";
export type {
  CallJournal,
  ChatMessage,
  CheckpointFile,
  CheckpointFiles,
  EngineLimits,
  EngineOptions,
  ForwardBackward,
  LocalFile,
  Loss,
  PolicyEngine,
  Sample,
  SampleRequest,
  Sampler,
  SavedFile,
  Tokenizer,
  ToolSchema,
  Trainer,
  TrainingSequence,
} from "./policy-ports.ts";

// ---------------------------------------------------------------- store

/**
 * Objects (S3). Reads are strongly consistent. All errors are MgrpoError. An outage is `store-unreachable` and retryable; a fault that a person
 * must fix, such as `disk-full` or wrong credentials, is not retryable.
 */
export interface ObjectStore {
  /**
   * Writes unless the key exists. True: these bytes are stored, even if an earlier attempt whose response was lost wrote them. False: another
   * writer's bytes are. `sha256`: the body's hash in hex, if the caller knows it, so that it need not be computed again.
   */
  commit(key: string, body: Uint8Array, sha256?: string): Promise<boolean>;
  /** The bytes, or undefined if there is no object. */
  get(key: string): Promise<Uint8Array | undefined>;
  /** Size in bytes, or undefined. */
  head(key: string): Promise<number | undefined>;
  /** Deletes objects, ignoring keys that do not exist. */
  delete(keys: readonly string[]): Promise<void>;
}

/** A JSON value. Map entries that are undefined are left out. */
export type TableValue =
  | string
  | number
  | boolean
  | null
  | readonly TableValue[]
  | { readonly [key: string]: TableValue | undefined };

/** A path into an item: attribute, then map keys. */
export type TablePath = readonly string[];

/** A condition of a write, as data. All conditions of a change must hold. Compare scalars: stores differ on equality of maps. */
export type TableCondition =
  | { readonly exists: TablePath }
  | { readonly absent: TablePath }
  | { readonly equals: readonly [TablePath, TableValue] };

/** One conditional update of one existing item. */
export interface TableChange {
  readonly key: TableKey;
  readonly set?: readonly (readonly [TablePath, TableValue])[];
  readonly add?: readonly (readonly [TablePath, number])[];
  readonly remove?: readonly TablePath[];
  readonly when: readonly TableCondition[];
}

export type TableItem = { readonly [key: string]: TableValue };

export interface TableResult {
  /** Whether the conditions held and the change was made. */
  readonly applied: boolean;
  /** The item after the change, or the unchanged item if a condition failed. Undefined if there is no item. */
  readonly item: TableItem | undefined;
}

/** Records (DynamoDB): conditional writes on single items, strongly consistent reads; no transactions, no streams. */
export interface Table {
  get(key: TableKey): Promise<TableItem | undefined>;
  /** Several items, in the order of the keys, each read as consistently as by `get`. */
  getAll(keys: readonly TableKey[]): Promise<(TableItem | undefined)[]>;
  /** Put-if-absent. False: the item already exists, and is unchanged. */
  insert(key: TableKey, item: TableItem): Promise<boolean>;
  /** Updates an item that exists and meets every condition. */
  update(change: TableChange): Promise<TableResult>;
  /** Deletes an item, if there is one. */
  delete(key: TableKey): Promise<void>;
  /** Items of a partition whose sort key starts with the prefix, in sort-key order. */
  query(pk: string, prefix: string): Promise<TableItem[]>;
}

/** Time. `monotonic` is in seconds, for leases. `sleep` ends early, without an error, when the signal aborts. */
export interface Clock {
  monotonic(): number;
  /** Wall-clock milliseconds by the store's clock (its Date header), for records that several machines write. */
  storeTime(): Promise<number>;
  sleep(seconds: number, signal?: AbortSignal): Promise<void>;
}

/** The program's state. */
export interface Store {
  readonly objects: ObjectStore;
  readonly table: Table;
  readonly clock: Clock;
}

// ---------------------------------------------------------------- deployment

/** The desired capacity of Auto Scaling groups. All errors of a deployment are MgrpoError `deployment-unreachable`, retryable. */
export interface Capacities {
  /** Capacities by group name. A group that does not exist is left out. */
  read(groups: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Idempotent. A group that does not exist is an error. */
  write(group: string, instances: number): Promise<void>;
}

/** The schedule that calls tick every minute while it is on. Switching it on or off is idempotent. */
export interface ScheduleSwitch {
  isOn(): Promise<boolean>;
  turn(to: "on" | "off"): Promise<void>;
}

/** Events about the deployment's objects. */
export interface ObjectEvents {
  /** Sends the "Object Created" events of these keys again. A repeat is harmless. */
  redeliver(keys: readonly string[]): Promise<void>;
}

/** What a deployment lets its functions change. */
export interface Controls {
  readonly capacities: Capacities;
  readonly scheduleSwitch: ScheduleSwitch;
  readonly events: ObjectEvents;
}

/** SHA-256 as lower-case hex. */
export type Hash = (bytes: Uint8Array | string) => string;

// ---------------------------------------------------------------- tools, delegation, rewards

/** What a tool may spend of its rollout's budget. Amounts are at least 0; NaN or a negative one throws `RangeError`. */
export interface CallBudget {
  /**
   * Charges a call's price in dollars; if too little is left, returns the text for the agent instead. Call it before any `await`: then
   * concurrent calls of a turn are charged in the order in which the agent wrote them.
   */
  charge(usd: number): string | undefined;
  /**
   * Reserves, until the turn ends, the most that a call may cost beyond its price, in dollars, so that the calls of a turn cannot spend
   * more than there is; if too little is left, reserves nothing and returns the text for the agent. Call it before any `await`, too.
   */
  reserve(maxUsd: number): string | undefined;
  /** Charges what a call cost beyond its price, in dollars, once it is known. */
  addCost(usd: number): void;
  /** Dollars that are neither spent nor reserved, never below 0. Infinity: no limit. */
  leftUsd(): number;
}

/** A limit for one text, in an agent's own tokens. */
export interface TokenRoom {
  readonly tokens: number;
  /** Tokens of a text, as the agent would see it. */
  count(text: string): number;
}

/**
 * What a tool knows about the rollout that calls it. `signal` aborts when the conversation ends early, another call of the turn fails, or
 * after `limits.toolSeconds`.
 */
export interface ToolContext {
  /** Frozen, since all rollouts share it. */
  readonly question: Question;
  /** Identifies the rollout: the same for the main agent and its sub-agents. */
  readonly address: RolloutAddress;
  /** The rollout's tool budget. A tool that costs money must charge it, and reserve what it may cost, before its first `await`. */
  readonly budget: CallBudget;
  /** Maximum characters of the response that reach the agent. The rest is cut. */
  readonly responseCharacters: number;
  /** Maximum tokens of the response that reach the agent. Absent: no such limit. */
  readonly responseTokens?: TokenRoom;
  readonly signal: AbortSignal;
}

/**
 * A tool. Failures of its backend are MgrpoError `tool-backend`, never text. The agent's own mistakes are answered with text. A tool with any
 * arguments is assignable to plain `Tool`, so that tools can be kept in one map.
 */
export type Tool<A = never> = ToolOf<A, [A] extends [never] ? unknown : A>;

interface ToolOf<A, Parsed> {
  readonly name: string;
  readonly description: string;
  /** Schema of the arguments. A call whose arguments do not match is malformed. */
  readonly parameters: z.ZodType<Parsed>;
  run(args: A, context: ToolContext): Promise<string>;
}

/**
 * Runs a sub-agent on a subtask and waits for its committed result. Rejects with `worker-unavailable`, `step-closed`, `deadline`, `canceled`,
 * `config-invalid` if no retry can make the worker accept the call, or with the failure that the worker reports.
 */
export interface Delegation {
  /** `opened`: time limits start when it resolves. Absent: they start immediately. */
  invoke(
    id: string,
    request: InvocationRequest,
    signal: AbortSignal,
    opened?: Promise<unknown>,
  ): Promise<InvocationReport>;
}

/** What a judge may use while it decides. */
export interface VerdictContext {
  /** Aborts at the verdict's deadline (`limits.verdictSeconds`), or when its caller cancels it. */
  readonly signal: AbortSignal;
  /**
   * Reserves the dollars that the next requests may cost, before they are made. The actual cost replaces the reserved sum, even without a
   * verdict; if the cost is unknown, that sum stays charged. Rejects after the deadline and after the verdict: make no request then.
   */
  readonly reserve: (usd: number) => Promise<void>;
}

/**
 * A recipe's rewards. They are bundled with the functions that score. An exception is never a wrong answer: with a judge it is the judge's
 * failure, otherwise an error in the recipe (recipes/checked-rewards.ts).
 */
export interface Rewards {
  /**
   * The name of a judge that costs money or is not deterministic: 1 to 64 letters, digits, `_`, `.` or `-`. One verdict per trajectory is
   * stored under this name; after a failure, the judge is asked again. Absent: scoring is a deterministic program, nothing is stored, and it
   * may run several times, even at once.
   */
  readonly judge?: string;
  correct(question: Question, conversation: Conversation, context?: VerdictContext): Judgment | Promise<Judgment>;
  /** How well the subtask itself was done (eq 5), whatever the final answer. */
  expert(
    question: Question,
    agent: string,
    conversation: Conversation,
    context?: VerdictContext,
  ): Judgment | Promise<Judgment>;
}

/** Handlers that a cloud calls on events. Delivery is at least once and in any order. An exception requests redelivery. */
export interface CloudHandlers {
  objectCreated(event: ObjectCreated): Promise<void>;
  /** The scheduled tick, which also repairs what lost events left undone. */
  tick(): Promise<void>;
}

/** The environment variables of a process. Adapters read keys and addresses from them. */
export type Environment = Readonly<Record<string, string | undefined>>;
