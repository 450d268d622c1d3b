/**
 * @file What follows from a judge's failure. An outage never counts as a wrong answer and never costs a finished rollout: the run waits, then is
 * halted, and the resumed run asks again. A rollout that gets no usable verdict is lost, so that one text cannot halt a run.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { Halt } from "../contracts/halt.ts";
import { type MgrpoError, refusalOf } from "../errors.ts";
import { haltOf } from "./halt-run.ts";
import type { VerdictFailure } from "./verdict.ts";

/** The run is halted once the requests for one verdict have kept failing for this long. */
const OUTAGE_SECONDS = 600;

export type JudgeDecision =
  | { readonly kind: "ask-again" }
  /** Only the user can fix it, or the outage has lasted too long. */
  | { readonly kind: "halt"; readonly halt: Halt }
  | { readonly kind: "exclude"; readonly reason: string };

/** `error`: from `askForVerdict` or `unclaimedFailure`. */
export function decideAfterFailure({ limits }: Pick<RunConfig, "limits">, error: MgrpoError): JudgeDecision {
  const refusal = refusalOf(error);
  if (refusal) return { kind: "halt", halt: haltOf(refusal) };
  const { fault, unusable, failingSeconds } = error.evidence as VerdictFailure;
  if (fault === "refused-text") return { kind: "exclude", reason: `judge: ${error.message}` };
  if (fault === "unusable-answer" && unusable >= limits.attempts)
    return { kind: "exclude", reason: `judge: ${error.message} (unusable answers: ${unusable})` };
  if (failingSeconds < OUTAGE_SECONDS) return { kind: "ask-again" };
  const minutes = Math.floor(failingSeconds / 60);
  const reason = `no verdict for ${minutes} minutes: ${error.message}. Fix the cause, then resume: no rollout is lost`;
  return { kind: "halt", halt: { code: "judge-outage", reason } };
}
