/** @file What halts a run: a code for programs to act on, and the reason for its user. */
import * as z from "zod";

/**
 * `user`: somebody halted it by hand. `budget`: the run's budget is spent, or its tools'. `refused`: a service or an app refused a call or
 * returned something invalid, or the recipe's rewards failed. `judge-outage`: the judge has failed for minutes; the outage may pass.
 * `losses`: too many lost rollouts. `trainer-lost`: the trainer of an agent was lost too often. `untrainable`: a loss or gradient is not
 * finite. `unserved`: a fleet does not serve the run.
 */
export const HaltCode = z.enum([
  "user",
  "budget",
  "refused",
  "judge-outage",
  "losses",
  "trainer-lost",
  "untrainable",
  "unserved",
]);
export type HaltCode = z.infer<typeof HaltCode>;

export interface Halt {
  readonly code: HaltCode;
  readonly reason: string;
}
