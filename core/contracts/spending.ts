/** @file The spending of a run, as DynamoDB records: of its tools, its agents behind APIs and its judges. */
import * as z from "zod";
import { RunName } from "./names.ts";

/**
 * In a record of sums: the writers that add to it, called payers, and their numbered payments. A payment that is sent again counts once
 * (core/training/numbered-payments.ts).
 */
export const RegisteredPayers = z.object({
  /** How many have registered. A new payer's number is this count plus one. */
  payers: z.int().nonnegative(),
  /** A payer's number -> how many of its payments are counted. Only the latest payers are listed. */
  payments: z.record(z.string(), z.int().nonnegative()),
});
export type RegisteredPayers = z.infer<typeof RegisteredPayers>;

/** Absent until the first payment. */
const payerFields = RegisteredPayers.partial().shape;

/** The requests of a run's tools to their backends, and the limits (core/training/tool-spending.ts). Only runs with metered tools have one. */
export const ToolSpendingRecord = z.strictObject({
  run: RunName,
  /** Requests made, and those refused at a limit. Answers from a cache do not count. */
  calls: z.int().nonnegative(),
  /** Millionths of a dollar. */
  microUsd: z.int().nonnegative(),
  /** Pages and results withheld from agents because they would leak a benchmark. */
  blocked: z.int().nonnegative(),
  /** Null: no limit. */
  maxCalls: z.int().nullable(),
  maxUsd: z.number().nullable(),
  ...payerFields,
});
export type ToolSpendingRecord = z.infer<typeof ToolSpendingRecord>;

/** The cost of turns of agents behind APIs (core/training/api-spending.ts). Only runs that paid for such a turn have one. */
export const AgentSpendingRecord = z.strictObject({
  run: RunName,
  turns: z.int().nonnegative(),
  /** Millionths of a dollar. */
  microUsd: z.int().nonnegative(),
  ...payerFields,
});
export type AgentSpendingRecord = z.infer<typeof AgentSpendingRecord>;

/** A part of the cost of judge models' verdicts (core/training/api-spending.ts). Only runs that paid a judge have some. */
export const JudgeSpendingRecord = z.strictObject({
  run: RunName,
  /** Answers without a verdict are paid for, but not counted here. */
  verdicts: z.int().nonnegative(),
  /** Millionths of a dollar, open reservations included. */
  microUsd: z.int().nonnegative(),
  /** Open reservation -> store time in ms from which its caller counts as dead. A dead caller's stays until a later request drops it. */
  reserved: z.record(z.string(), z.int()),
});
export type JudgeSpendingRecord = z.infer<typeof JudgeSpendingRecord>;
