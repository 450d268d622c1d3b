/** @file What follows from a judge's failure: ask again, lose the rollout, or halt the run. */
import { expect, test } from "vitest";
import { MgrpoError } from "../../../core/errors.ts";
import { decideAfterFailure } from "../../../core/training/judge-failures.ts";
import type { VerdictFailure } from "../../../core/training/verdict.ts";
import { teamConfig } from "../../fakes/scripted-team.ts";

const ATTEMPTS = 3;
const config = () => teamConfig({ limits: { attempts: ATTEMPTS } });

function decide(change: Partial<VerdictFailure>, cause?: MgrpoError) {
  const evidence: VerdictFailure = { fault: "outage", unusable: 0, failingSeconds: 0, ...change };
  const error = new MgrpoError("judge-failed", "HTTP 503", { retryable: true, evidence, cause });
  return decideAfterFailure(config(), error);
}

const outage = (minutes: number): ReturnType<typeof decide> => ({
  kind: "halt",
  halt: {
    code: "judge-outage",
    reason: `no verdict for ${minutes} minutes: HTTP 503. Fix the cause, then resume: no rollout is lost`,
  },
});
const OUTAGE = outage(10);

test.each<[Partial<VerdictFailure>, ReturnType<typeof decide>]>([
  [{}, { kind: "ask-again" }],
  // A judge that has failed for ten minutes halts the run.
  [{ failingSeconds: 599 }, { kind: "ask-again" }],
  [{ failingSeconds: 600 }, OUTAGE],
  [{ failingSeconds: 659 }, OUTAGE],
  [{ failingSeconds: 660 }, outage(11)],
  // limits.attempts bounds unusable answers, not failures of other kinds.
  [{ fault: "unusable-answer", unusable: ATTEMPTS - 1 }, { kind: "ask-again" }],
  [
    { fault: "unusable-answer", unusable: ATTEMPTS },
    { kind: "exclude", reason: "judge: HTTP 503 (unusable answers: 3)" },
  ],
  [
    { fault: "unusable-answer", unusable: 9 },
    { kind: "exclude", reason: "judge: HTTP 503 (unusable answers: 9)" },
  ],
  [{ fault: "outage", unusable: 9 }, { kind: "ask-again" }],
  [{ fault: "unusable-answer", unusable: 1, failingSeconds: 600 }, OUTAGE],
  [{ fault: "refused-text" }, { kind: "exclude", reason: "judge: HTTP 503" }],
  // Excluding a rollout does not halt the run, however long the judge has failed.
  [
    { fault: "refused-text", failingSeconds: 9999 },
    { kind: "exclude", reason: "judge: HTTP 503" },
  ],
  [
    { fault: "unusable-answer", unusable: ATTEMPTS, failingSeconds: 9999 },
    { kind: "exclude", reason: "judge: HTTP 503 (unusable answers: 3)" },
  ],
])("after %o: %o", (failure, decision) => {
  expect(decide(failure)).toEqual(decision);
});

test("an error that only the user can fix halts the run at once, with its own message", () => {
  for (const code of ["endpoint-refused", "rewards-invalid"] as const) {
    const cause = new MgrpoError(code, "the key is wrong");
    const halt = { kind: "halt", halt: { code: "refused", reason: "the key is wrong" } };
    expect(decide({}, cause)).toEqual(halt);
    expect(decideAfterFailure(config(), cause)).toEqual(halt);
  }
});
