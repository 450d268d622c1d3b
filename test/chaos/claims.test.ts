/** @file What ends a claim, and when, and which of the judge's answers need one. Covers writes during which the target died, and responses out of order. */
import { expect, test } from "vitest";
import { overlappingClaims, unclaimedAnswers } from "./claims.ts";
import type { Entry, LeaseChange, Trial } from "./history.ts";
import { LIMITS } from "./limits.ts";

const NAME = "VERDICT#a#subject JUDGE#judge";
const HELD_MS = 50_000;

type Given = Partial<Entry> & Pick<Entry, "sentAt">;

const entry = (given: Given): Entry => ({
  ...{ answeredAt: given.sentAt + 5, process: "functions", channel: "dynamo", method: "POST", path: "/" },
  ...{ fault: undefined, status: 200, facts: [], ...given },
});

/** The store's time is that of the trial. */
const claim = (madeAt: number): LeaseChange => ({
  ...{ name: NAME, act: "grant", seconds: HELD_MS / 1000 },
  claim: { madeAt, heldUntil: madeAt + HELD_MS },
});
const claimed = (sentAt: number): Entry => entry({ sentAt, lease: claim(sentAt) });
const answered = (sentAt: number, more: Partial<Entry> = {}): Entry =>
  entry({ sentAt, channel: "world", verdictMicroUsd: 2000, ...more });

const trialOf = (history: readonly Entry[]): Trial => ({
  ...{ endedInTime: true, seconds: 20, runs: [], history, log: [], strikes: [], limits: LIMITS, starts: {}, ends: [] },
});

test("a claim is reported if the one before it has not expired, unless clock error explains it", () => {
  expect(overlappingClaims(trialOf([claimed(0), claimed(HELD_MS)]))).toEqual([]);
  expect(overlappingClaims(trialOf([claimed(0), claimed(HELD_MS - 2000)]))).toEqual([]);
  expect(overlappingClaims(trialOf([claimed(0), claimed(HELD_MS - 4000), claimed(2 * HELD_MS)]))).toEqual([
    `${NAME}: claimed 4.0 s before the claim on it expires`,
  ]);
  const other = entry({ sentAt: 20, lease: { ...claim(20), name: "VERDICT#a#other JUDGE#judge" } });
  expect(overlappingClaims(trialOf([claimed(0), other]))).toEqual([]);
});

const RELEASE: LeaseChange = { name: NAME, act: "release" };

test.each<[string, Partial<Entry>]>([
  ["released it", { lease: RELEASE }],
  ["failed", { lease: { name: NAME, act: "grant", seconds: 1 } }],
  ["may have released it in a write during which the target died", { status: 0, possibleLease: RELEASE }],
])("the next claim may follow at once if the holder of the previous one %s", (_what, end) => {
  expect(overlappingClaims(trialOf([claimed(0), entry({ sentAt: 20, ...end }), claimed(40)]))).toEqual([]);
});

test("the response to a release may arrive after the response to the next claim", () => {
  const late = entry({ sentAt: 20, answeredAt: 100, lease: RELEASE });
  expect(overlappingClaims(trialOf([claimed(0), claimed(40), late]))).toEqual([]);
});

test("the judge gives at most one answer per claim, plus one per faulted request to it", () => {
  expect(unclaimedAnswers(trialOf([claimed(0), answered(10)]))).toEqual([]);
  expect(unclaimedAnswers(trialOf([claimed(0), answered(10, { fault: "lose" }), answered(20)]))).toEqual([]);
  expect(unclaimedAnswers(trialOf([claimed(0), answered(10), answered(20)]))).toEqual([
    "answers: 2, claims: 1, faulted requests: 0",
  ]);
});

test("a claim may have been made if the target died during its write, so it allows one answer", () => {
  const unseen = entry({ sentAt: 0, status: 0, possibleLease: claim(Number.NaN) });
  expect(unclaimedAnswers(trialOf([unseen, answered(10)]))).toEqual([]);
  expect(unclaimedAnswers(trialOf([unseen, answered(10), answered(20)]))).toHaveLength(1);
  // Whether and when it was made is unknown, so the next claim is not a violation.
  expect(overlappingClaims(trialOf([unseen, claimed(20)]))).toEqual([]);
});
