/** @file The CALLS record: the calls of an agent's trainer to its Tinker server, written before each call. */
import * as z from "zod";
import { RecordedText } from "./bounds.ts";
import { AgentName, RunName, Sha256, WorkerId } from "./names.ts";

/** The calls of a training step so far, which the next process needs after a crash to continue with the same model. */
export const TinkerCalls = z.strictObject({
  /** The server's base URL. */
  server: RecordedText,
  session: RecordedText,
  model: RecordedText,
  /** The version that the model held before call `from`: SHA-256 of its `tinker.json`. */
  version: Sha256,
  from: z.int().positive(),
  /** The newest call that may have been made. */
  last: z.int().positive(),
  /** Chained SHA-256 over the calls `from` to `last`. */
  digest: Sha256,
});
export type TinkerCalls = z.infer<typeof TinkerCalls>;

/** One item per agent, overwritten by each call, so that it does not grow. */
export const TinkerCallsRecord = z.strictObject({
  run: RunName,
  agent: AgentName,
  /** The only worker that may write the record, and so make calls: the last one to claim it. */
  writer: WorkerId,
  /** Null: there is nothing to continue from. */
  calls: TinkerCalls.nullable(),
});
export type TinkerCallsRecord = z.infer<typeof TinkerCallsRecord>;
