/**
 * @file The history of a trial: every request to the store, the world or a worker, with the answer that it got there, whether or not the
 * caller saw that answer. The checker reads nothing but this, the deaths, the log and the final records.
 */
import type { Channel, Death, FaultKind } from "./schedule.ts";

export interface Entry {
  /** Milliseconds since the trial began, when the request was passed on and when its answer came back; equal if it was not passed on. */
  readonly sentAt: number;
  readonly answeredAt: number;
  readonly process: string;
  readonly channel: Channel;
  readonly method: string;
  readonly path: string;
  /** What happened to it on the way. */
  readonly fault: FaultKind | undefined;
  /** 0: it has no answer. */
  readonly status: number;
  /** What a write that took effect made true, each at most once in a run: see `factsOf`. */
  readonly facts: readonly string[];
  /** The same for a write whose target died under it: perhaps it took effect. */
  readonly possible?: readonly string[];
  /** What the judge's answer cost, if it is one. */
  readonly verdictMicroUsd?: number;
}

/** A request to the store, as it was passed on. */
export interface StoreRequest {
  readonly channel: Channel;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/**
 * The facts that a write that took effect records. A fact is something that the protocol lets happen once: an object that is committed, an
 * item that is inserted, a rollout's score, a step's state, a version.
 */
export function factsOf(request: StoreRequest): string[] {
  if (request.channel === "s3") return request.method === "PUT" ? [objectFact(request)] : [];
  const operation = String(request.headers["x-amz-target"] ?? "")
    .split(".")
    .at(-1);
  const input = JSON.parse(request.body.toString("utf8"));
  if (operation === "PutItem") return [`insert ${keyText(input.Item)}`];
  if (operation !== "UpdateItem") return [];
  return [...assignments(input)].flatMap(([path, value]) => updateFact(keyText(input.Key), path, value));
}

function objectFact({ path, headers }: StoreRequest): string {
  const condition = headers["if-none-match"] === "*" ? "commit" : "overwrite";
  return `${condition} ${decodeURIComponent(path.split("?", 1)[0] ?? "").replace(/^\/[^/]+\//, "")}`;
}

interface Attribute {
  readonly S?: string;
  readonly N?: string;
}

interface Update {
  readonly UpdateExpression: string;
  readonly ExpressionAttributeNames?: Readonly<Record<string, string>>;
  readonly ExpressionAttributeValues?: Readonly<Record<string, Attribute>>;
}

const keyText = ({ pk, sk }: { pk?: Attribute; sk?: Attribute }) => `${pk?.S} ${sk?.S}`;

/** Path -> value of every SET of an update expression. */
function* assignments(update: Update): Generator<[string, Attribute]> {
  const { UpdateExpression, ExpressionAttributeNames: names = {}, ExpressionAttributeValues: values = {} } = update;
  for (const [, path = "", value = ""] of UpdateExpression.matchAll(/([#\w.]+) = (:\d+)/g)) {
    yield [path.replaceAll(/#\d+/g, (short) => names[short] ?? short), values[value] ?? {}];
  }
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

/** The result of a trial. */
export interface Trial {
  /** False: it had not ended at its deadline, or a process could not stay alive. */
  readonly isTimely: boolean;
  readonly seconds: number;
  readonly runs: readonly RunResult[];
  readonly history: readonly Entry[];
  /** What the processes wrote to stderr. */
  readonly log: readonly string[];
  readonly died: readonly Death[];
  readonly starts: Readonly<Record<string, number>>;
}

export interface RunResult {
  readonly run: string;
  readonly status: string;
  /** Scores, finalized groups, hashes of all weights, evaluations. */
  readonly records: unknown;
  readonly judgesMicroUsd: number;
  /** Trajectories whose log-probs are not those of the version that they name. */
  readonly foreignTokens: readonly string[];
}
