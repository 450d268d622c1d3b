/**
 * @file Wraps a function for Lambda: called by SQS with a batch of events (a failed message comes again alone, a malformed one is a line in
 * the log and done with), by the clock, or directly. To the clock and to a direct caller every failure is one, or no alarm would ring.
 */
import type { SQSBatchResponse } from "aws-lambda";
import * as z from "zod";
import { ObjectCreated } from "../core/contracts/messages.ts";
import { parse, parseJson } from "../core/contracts/parse.ts";
import { composeFromEnvironment } from "./compose.ts";
import type { Functions } from "./protocol/functions.ts";
import { type Log, logAndRethrow, settle } from "./report.ts";

const Batch = z.object({ Records: z.array(z.object({ messageId: z.string(), body: z.string() })).min(1) });

/** Answers any of the three ways of calling. Of a batch it says what another delivery may mend; otherwise it rejects with the failure. */
export type LambdaHandler = (event: unknown) => Promise<SQSBatchResponse>;

/** What a function does with an event, of which it parses its own part. */
export type Answer = (functions: Functions, event: unknown) => Promise<unknown>;

/** `answer` parses its own part of the event. */
export function wrap(name: string, answer: (event: unknown) => Promise<unknown>, log: Log): LambdaHandler {
  return async (event) => {
    const batch = Batch.safeParse(event);
    if (!batch.success) {
      await logAndRethrow(name, log, () => answer(event));
      return { batchItemFailures: [] };
    }
    const failed = await Promise.all(
      batch.data.Records.map(({ messageId, body }) =>
        settle(name, log, async () =>
          answer(parseJson(z.unknown(), body, `message ${messageId}`, "event-malformed")),
        ).then(
          () => [],
          () => [{ itemIdentifier: messageId }],
        ),
      ),
    );
    return { batchItemFailures: failed.flat() };
  };
}

/** The key of the object an event announces, or the key itself. */
export function objectKeyOf(event: unknown): { readonly key: string } {
  const direct = z.strictObject({ key: z.string() }).safeParse(event);
  if (direct.success) return direct.data;
  const { detail } = parse(ObjectCreated, event, "event", "event-malformed");
  return { key: detail.object.key };
}

let functions: Functions | undefined;
/** A handler on the store that the environment names, which is opened at the first call. */
export function lambda(name: string, answer: Answer): LambdaHandler {
  const open = () => (functions ??= composeFromEnvironment(process.env));
  return wrap(
    name,
    async (event) => answer(open(), event),
    (line) => process.stderr.write(`${line}\n`),
  );
}
