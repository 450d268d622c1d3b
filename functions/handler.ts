/**
 * @file How functions are called, and how their failures are handled. Each failure is one line of JSON in the log.
 *
 *     SQS batch              after a retryable failure, the message is delivered again; after any other, it is dropped
 *     local cloud            the same for its events and its scheduled ticks
 *     AWS schedule, direct   every failure is rethrown; an alarm counts those of tick
 */
import type { SQSBatchItemFailure, SQSBatchResponse } from "aws-lambda";
import * as z from "zod";
import { parseObjectKey } from "../core/contracts/keys.ts";
import { ObjectCreated, REDELIVERY_SOURCE } from "../core/contracts/messages.ts";
import { parse, parseJson } from "../core/contracts/parse.ts";
import { isMgrpoError } from "../core/errors.ts";
import type { CloudHandlers } from "../core/ports.ts";
import { composeFromEnvironment } from "./compose.ts";
import type { Functions, ObjectKey } from "./functions.ts";

/** Takes one line of JSON. */
export type LogWriter = (line: string) => void;

/** Calls a function with an event, after parsing the part of the event that it needs. */
export type EventHandler = (functions: Functions, event: unknown) => Promise<unknown>;

/** Takes an SQS batch, or a scheduled or direct event. A batch's response lists the messages to deliver again; for others, a failure rejects. */
export type LambdaHandler = (event: unknown) => Promise<SQSBatchResponse>;

const Batch = z.object({ Records: z.array(z.object({ messageId: z.string(), body: z.string() })).min(1) });
type SqsRecord = z.infer<typeof Batch>["Records"][number];

/** Turns a function that takes one event into a Lambda handler. */
export function wrap(name: string, handle: (event: unknown) => Promise<unknown>, log: LogWriter): LambdaHandler {
  const handleMessage = async ({ messageId, body }: SqsRecord): Promise<SQSBatchItemFailure[]> => {
    try {
      await settle(name, log, async () =>
        handle(parseJson(z.unknown(), body, `message ${messageId}`, "event-malformed")),
      );
      return [];
    } catch {
      return [{ itemIdentifier: messageId }];
    }
  };
  return async (event) => {
    const batch = Batch.safeParse(event);
    if (batch.success) {
      const failed = await Promise.all(batch.data.Records.map(handleMessage));
      return { batchItemFailures: failed.flat() };
    }
    await logAndRethrow(name, log, () => handle(event));
    return { batchItemFailures: [] };
  };
}

let functions: Functions | undefined;
/** A Lambda handler for the store that the environment names. The first call opens the store. */
export function lambda(name: string, handle: EventHandler): LambdaHandler {
  const open = () => (functions ??= composeFromEnvironment(process.env));
  return wrap(
    name,
    async (event) => handle(open(), event),
    (line) => process.stderr.write(`${line}\n`),
  );
}

/** What the local cloud calls when an object is created and at each scheduled tick. */
export function cloudHandlers(functions: Functions, log: LogWriter): CloudHandlers {
  const route = {
    outcome: ["score-rollout", functions.scoreRollout],
    manifest: ["tick", functions.manifestCreated],
    team: ["enqueue-evaluation", functions.enqueueEvaluation],
    evaluation: ["record-evaluation", functions.recordEvaluation],
  } as const;
  const tickWithoutRepeats = withoutRepeatedLines(log);
  return {
    async objectCreated(event) {
      const key = event.detail.object.key;
      const found = parseObjectKey(key);
      if (!found) return;
      const [name, handle] = route[found.kind];
      await settle(name, log, () => handle({ key }));
    },
    tick: () => tickWithoutRepeats((logNew) => tickAll(functions, logNew)),
  };
}

/**
 * Runs a tick with a log that leaves out lines of the tick before: the cloud ticks every two seconds, and a run that fails in each would
 * fill the disk.
 */
function withoutRepeatedLines(log: LogWriter): (tick: (logNew: LogWriter) => Promise<void>) => Promise<void> {
  let before: ReadonlySet<string> = new Set();
  return async (tick) => {
    const lines = new Set<string>();
    const logNew = (line: string) => {
      if (!before.has(line) && !lines.has(line)) log(line);
      lines.add(line);
    };
    await tick(logNew).finally(() => {
      before = lines;
    });
  };
}

/**
 * Ticks every run and logs each run's failure, then rejects with the first retryable one. A judge's failure is only logged: a later tick asks
 * the judge again, unless the run has halted.
 */
async function tickAll(functions: Functions, log: LogWriter): Promise<void> {
  const failures: unknown[] = [];
  const onFailure = (error: unknown) => {
    const isOfJudge = isMgrpoError(error, "judge-failed");
    log(failureLine(isOfJudge ? "score-rollout" : "tick", error));
    if (!isOfJudge && isRetryable(error)) failures.push(error);
  };
  await settle("tick", log, () => functions.tickAll(onFailure));
  if (failures.length > 0) throw failures[0];
}

/** The key of the object that an event announces, or the key of a direct call. */
export function objectKeyOf(event: unknown): ObjectKey {
  const direct = z.strictObject({ key: z.string() }).safeParse(event);
  if (direct.success) return direct.data;
  const { source, detail } = parse(ObjectCreated, event, "event", "event-malformed");
  return { key: detail.object.key, ...(source === REDELIVERY_SOURCE && { isRepeat: true }) };
}

/** Calls `run`. A failure is logged and rethrown. */
async function logAndRethrow(name: string, log: LogWriter, run: () => Promise<unknown>): Promise<void> {
  try {
    await run();
  } catch (error) {
    log(failureLine(name, error));
    throw error;
  }
}

/** Calls `run`. A failure is logged, and rethrown only if another delivery may succeed. */
async function settle(name: string, log: LogWriter, run: () => Promise<unknown>): Promise<void> {
  await logAndRethrow(name, log, run).catch((error: unknown) => {
    if (isRetryable(error)) throw error;
  });
}

/** Errors other than MgrpoError are bugs: they are retried up to the queue's limit. */
const isRetryable = (error: unknown) => !isMgrpoError(error) || error.retryable;

/** A line of JSON: which function failed, why, and whether a retry may succeed; for a bug, also its stack. */
export function failureLine(name: string, error: unknown): string {
  const { message, stack } = error instanceof Error ? error : { message: String(error), stack: undefined };
  const known = isMgrpoError(error) ? { code: error.code, evidence: error.evidence } : { code: "fault", stack };
  return JSON.stringify({ level: "error", function: name, ...known, retryable: isRetryable(error), message });
}
