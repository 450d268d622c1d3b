/** @file The record of requests for a verdict: who asks for it, and how often that has failed (core/training/verdict-claim.ts). */
import * as z from "zod";
import { JudgeName, RunName } from "./names.ts";

/** The last claim on a verdict, and its failures. The verdict itself is an object. */
export const VerdictRecord = z.strictObject({
  run: RunName,
  /** SHA-256 of what is judged. */
  subject: z.string().max(64),
  judge: JudgeName,
  /** A claim adds 1, on condition that the number is still the one it read. So of two concurrent claims, only one succeeds. */
  asks: z.int().nonnegative(),
  /** Identifies the call that made the last claim. Absent: no claim was made. */
  token: z.string().max(64).exactOptional(),
  /** Store time in ms before which it cannot be claimed again: the claimant's deadline, or the end of the pause after a failure. */
  heldUntil: z.number(),
  /** Consecutive failures. */
  failures: z.int().nonnegative(),
  /** All answers so far that were not verdicts. Not reset, unlike `failures`. */
  unusable: z.int().nonnegative(),
  /** Store times in ms of the first and last consecutive failure. 0: none. */
  failingSince: z.number(),
  failedAt: z.number(),
  /** In seconds since 1970: the table may delete it from then on. */
  expiresAt: z.int(),
});
export type VerdictRecord = z.infer<typeof VerdictRecord>;
