/** @file CALLS, a record of the table: what an agent's trainer on a Tinker server writes down before each of its calls. */
import * as z from "zod";
import { AgentName, RunName, Sha256, WorkerId } from "./names.ts";

/** Where the calls of a training step stand: what the process after a crash needs to go on with the same model. */
export const TinkerCalls = z.strictObject({
  /** The server's base URL. */
  server: z.string(),
  session: z.string(),
  model: z.string(),
  /** Which version the model held before call `from`: SHA-256 of its `tinker.json`. */
  version: Sha256,
  from: z.int().positive(),
  /** The newest call that may have been made. */
  last: z.int().positive(),
  /** SHA-256 over the calls `from` to `last`, each chained to those before it. */
  digest: Sha256,
});
export type TinkerCalls = z.infer<typeof TinkerCalls>;

/** One item per agent, written over: its size does not grow with the calls. */
export const TinkerCallsRecord = z.strictObject({
  run: RunName,
  agent: AgentName,
  /** Who alone may write, and so alone makes calls: the worker whose trainer took it last. */
  writer: WorkerId,
  /** Null: there is nothing to go on from. */
  calls: TinkerCalls.nullable(),
});
export type TinkerCallsRecord = z.infer<typeof TinkerCallsRecord>;
