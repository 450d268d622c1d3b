/**
 * @file The ports: everything the program needs from outside its pure centre. Each is small; its contract is the prose
 * here plus one suite in test/contracts that every adapter passes.
 */
import type { z } from "zod";
import type { Conversation } from "./contracts/conversation.ts";
import type { Judgement } from "./contracts/judge.ts";
import type { TableKey } from "./contracts/keys.ts";
import type { ObjectCreated } from "./contracts/messages.ts";
import type { Question } from "./contracts/question.ts";
import type { InvocationReport, InvocationRequest } from "./contracts/rollout.ts";
import type { TokenRoom } from "./conversation/token-room.ts";
import type { ToolBudget } from "./conversation/tool-budget.ts";

export type { Completion, CompletionRequest, LanguageModel, TokenUsage } from "./language-model-ports.ts";
export type {
  CallJournal,
  ChatMessage,
  CheckpointFile,
  CheckpointFiles,
  EngineOptions,
  ForwardBackward,
  LocalFile,
  Loss,
  PolicyEngine,
  Sample,
  SampleRequest,
  Sampler,
  Tokenizer,
  ToolSchema,
  Trainer,
  TrainingSequence,
} from "./policy-ports.ts";

// ---------------------------------------------------------------- store

/** Objects (S3). Reads are strongly consistent. All errors are MgrpoError: `store-unreachable` (retryable), `disk-full`. */
export interface ObjectStore {
  /**
   * Commits: writes unless the key exists. True: our bytes are there now, even if an unanswered earlier try wrote them. False: another's
   * are. `sha256`: the body's, as hex, where the caller knows it; then it need not be computed again to sign the request.
   */
  commit(key: string, body: Uint8Array, sha256?: string): Promise<boolean>;
  /** The bytes, or undefined when there are none. */
  get(key: string): Promise<Uint8Array | undefined>;
  /** Size in bytes, or undefined. */
  head(key: string): Promise<number | undefined>;
  /** Deletes; keys that do not exist are fine. */
  delete(keys: readonly string[]): Promise<void>;
}

/** A JSON value; map entries that are undefined are left out. */
export type TableValue =
  | string
  | number
  | boolean
  | null
  | readonly TableValue[]
  | { readonly [key: string]: TableValue | undefined };

/** Path into an item: attribute, then map keys. */
export type TablePath = readonly string[];

/** A condition of a write, as data. All conditions of a change must hold. Compare scalars: stores differ on equality of maps. */
export type TableCondition =
  | { readonly exists: TablePath }
  | { readonly absent: TablePath }
  | { readonly equals: readonly [TablePath, TableValue] }
  /** The path is absent or has this value. */
  | { readonly absentOrEquals: readonly [TablePath, TableValue] };

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
  /** The item after the change, or as it stood when a condition failed; undefined when there is no item. */
  readonly item: TableItem | undefined;
}

/** Records (DynamoDB): conditional writes on single items, consistent reads; no transactions, no streams. */
export interface Table {
  get(key: TableKey): Promise<TableItem | undefined>;
  /** Several at once, in the order of the keys, each as consistent as `get`. */
  getAll(keys: readonly TableKey[]): Promise<(TableItem | undefined)[]>;
  /** Put-if-absent. False: the item was there already and is untouched. */
  insert(key: TableKey, item: TableItem): Promise<boolean>;
  /** Updates an item that exists and meets every condition. */
  update(change: TableChange): Promise<TableResult>;
  /** Items of a partition whose sort key starts with the prefix, in sort-key order. */
  query(pk: string, prefix: string): Promise<TableItem[]>;
}

/** Time. `monotonic` in seconds, for leases; `sleep` ends early, without error, when the signal aborts. */
export interface Clock {
  monotonic(): number;
  /** Wall-clock milliseconds as the store tells them (its Date header), for records of different machines. */
  storeTime(): Promise<number>;
  sleep(seconds: number, signal?: AbortSignal): Promise<void>;
}

/** What the program keeps its state in. */
export interface Store {
  readonly objects: ObjectStore;
  readonly table: Table;
  readonly clock: Clock;
}

// ---------------------------------------------------------------- deployment

/** How many instances groups of machines are to have. All errors of a deployment are MgrpoError `deployment-unreachable`, retryable. */
export interface Capacities {
  /** By the group's name; one that is not there is an error. */
  read(groups: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Setting what is set already changes nothing. */
  write(group: string, instances: number): Promise<void>;
}

/** What calls the clock's tick every minute, while it is on. Turning it to what it is changes nothing. */
export interface ClockSwitch {
  isOn(): Promise<boolean>;
  turn(to: "on" | "off"): Promise<void>;
}

/** What a deployment lets its functions move. */
export interface Controls {
  readonly capacities: Capacities;
  readonly clockSwitch: ClockSwitch;
}

/** SHA-256 as lower-case hex. */
export type Hash = (bytes: Uint8Array | string) => string;

// ---------------------------------------------------------------- world

export interface ToolContext {
  readonly question: Question;
  /** What the rollout may ask for: a tool that costs takes from it before it awaits anything. */
  readonly budget: Pick<ToolBudget, "take" | "add">;
  /** Characters of the response that will reach the agent; the rest is cut. */
  readonly responseCharacters: number;
  /** Its tokens that will; absent where nobody counts them. */
  readonly responseTokens?: TokenRoom;
  readonly signal: AbortSignal;
}

/**
 * A tool. Failures of its backend are MgrpoError `tool-backend`, never text; the agent's own mistakes are text.
 * A tool of any arguments is assignable to plain `Tool`, which is how they are kept together.
 */
export type Tool<A = never> = ToolOf<A, [A] extends [never] ? unknown : A>;

interface ToolOf<A, Parsed> {
  readonly name: string;
  readonly description: string;
  /** Arguments; a call that does not parse is malformed. */
  readonly parameters: z.ZodType<Parsed>;
  run(args: A, context: ToolContext): Promise<string>;
}

/** Runs a sub-agent on a subtask and waits for its committed result. Rejects with `worker-unavailable`, `step-closed`, `deadline`, `cancelled`. */
export interface Delegation {
  /** `opened`: from when on time limits count; absent: from the beginning. */
  invoke(
    id: string,
    request: InvocationRequest,
    signal: AbortSignal,
    opened?: Promise<unknown>,
  ): Promise<InvocationReport>;
}

/** A recipe's rewards, bundled into functions. Throwing is a judge failure, never a wrong answer. */
export interface Rewards {
  /**
   * Names a judge that costs money or draws: its verdicts are kept as objects under this name and asked for once per trajectory.
   * Absent: scoring is a program, and nothing is kept.
   */
  readonly judge?: string;
  correct(question: Question, conversation: Conversation): Judgement | Promise<Judgement>;
  /** How well a subtask itself was done (eq 5), whatever became of the whole. */
  expert(question: Question, agent: string, conversation: Conversation): Judgement | Promise<Judgement>;
}

/** What a cloud calls when something happens. Delivery is at least once and in any order; throwing asks for another delivery. */
export interface CloudHandlers {
  objectCreated(event: ObjectCreated): Promise<void>;
  /** The clock: repairs whatever an event missed. */
  clock(): Promise<void>;
}
