/** @file What depends only on progress, versions and time: schedules, references, expiry and budgets, worked by hand. */
import { expect, test } from "vitest";
import { isMgrpoError } from "../../../core/errors.ts";
import { NO_API_SPENDING } from "../../../core/training/api-spending.ts";
import { entropyCoefficientAt } from "../../../core/training/entropy-schedule.ts";
import { optimizerAt } from "../../../core/training/learning-rate.ts";
import { isReference } from "../../../core/training/reference.ts";
import { CONVERSATION_DAYS, completedAt, expiryOf, readExpiredVersion } from "../../../core/training/retention.ts";
import { raisedLimits, raisesBudget, shareSpent } from "../../../core/training/run-budget.ts";
import { expired, keptVersions, stepsTable } from "../../fakes/retention.ts";
import { runRecord, teamConfig } from "../../fakes/scripted-team.ts";

test("the entropy coefficient changes linearly from its start to its end; it is 0 if `entropy` is null", () => {
  const falling = { start: 0.02, end: 0.01 };
  expect([0, 0.5, 1].map((progress) => entropyCoefficientAt(falling, progress))).toEqual(
    [0.02, 0.015, 0.01].map((value) => expect.closeTo(value, 12)),
  );
  expect(entropyCoefficientAt(null, 0.5)).toBe(0);
});

test("the first step after the warm-up has the full rate, and the decay begins there", () => {
  const adamw = { kind: "adamw", learningRate: 1, schedule: "linear", warmupRatio: 0.5 } as const;
  const rateAt = (progress: number) => optimizerAt(adamw as never, progress, 10).learningRate;
  expect(rateAt(0.4)).toBeCloseTo(0.5 / 0.6, 12);
  expect(rateAt(0.5)).toBe(1);
  expect(rateAt(0.75)).toBeCloseTo(0.5, 12);
});

test("without `refreshEvery` no version is kept as a reference; with it, every multiple is", () => {
  for (const version of [0, 1, 6]) expect(isReference({}, version)).toBe(false);
  expect([0, 1, 2, 3, 4].filter((version) => isReference({ refreshEvery: 2 }, version))).toEqual([0, 2, 4]);
});

test("a group expires 90 days after it is finalized, rounded up to a second", () => {
  expect(CONVERSATION_DAYS).toBe(90);
  expect(expiryOf(1000)).toBe(1 + 7_776_000);
  expect(expiryOf(1001)).toBe(2 + 7_776_000);
  expect(completedAt(expiryOf(1001))).toBe(2000);
});

test("the base and the last version are always kept; without `keepEvery`, evaluations and references, no other is", async () => {
  const none = teamConfig({ steps: 9, evaluation: { suites: [] } });
  expect(await keptVersions(none, 9)).toEqual([0, 9]);
  const every = teamConfig({ steps: 9, evaluation: { suites: [] }, retention: { keepEvery: 4 } });
  expect(await keptVersions(every, 9)).toEqual([0, 4, 8, 9]);
});

test("an expired version's neighbors are the base, the nearest kept one before it, and the window after it", async () => {
  const every = teamConfig({ steps: 20, evaluation: { suites: [] }, retention: { keepEvery: 5 } });
  const { last } = every.retention;
  const window = (version: number) => Array.from({ length: last }, (_, i) => version + 1 + i);
  const neighbors = async (version: number) =>
    (await readExpiredVersion(stepsTable([]), every, version + last))?.neighbors;
  expect(await neighbors(9)).toEqual([0, 5, ...window(9)]);
  expect(await neighbors(6)).toEqual([0, 5, ...window(6)]);
  // Only the base is kept before these versions: the search ends there.
  expect(await neighbors(4)).toEqual([0, ...window(4)]);
  expect(await neighbors(1)).toEqual([0, ...window(1)]);
});

test("nothing expires until version 1 leaves the window", async () => {
  const config = teamConfig({ steps: 20, evaluation: { suites: [] } });
  const { last } = config.retention;
  expect(await expired(config, last + 1)).toEqual([...Array(last).fill(undefined), 1]);
});

test("the spent share of a budget is the larger of its shares of hours and of dollars; 0 without a limit", () => {
  const spent = { hours: 1, workerHours: 3, usd: 6, ...NO_API_SPENDING };
  expect(shareSpent({ maxHours: 4, maxUsd: 8 }, spent)).toBe(0.75);
  expect(shareSpent({ maxHours: 2, maxUsd: 60 }, spent)).toBe(0.5);
  expect(shareSpent({ maxHours: null, maxUsd: 8 }, spent)).toBe(0.75);
  expect(shareSpent({ maxHours: null, maxUsd: null }, spent)).toBe(0);
});

test("a budget is raised if any limit is given, even 0", () => {
  expect(raisesBudget({})).toBe(false);
  expect(raisesBudget({ hours: undefined, usd: undefined })).toBe(false);
  for (const given of ["hours", "usd", "toolCalls", "toolUsd"]) {
    expect(raisesBudget({ hours: undefined, [given]: 0 })).toBe(true);
  }
});

test.each([
  ["hours", "budget.hours"],
  ["usd", "budget.usd"],
])("without a limit there is nothing to raise: %s", (amount, setting) => {
  const spent = { hours: 1, workerHours: 1, usd: 1, ...NO_API_SPENDING };
  const unlimited = runRecord({ maxHours: null, maxUsd: null });
  expect(() => raisedLimits(unlimited, spent, { [amount]: 1 })).toThrow(
    expect.toSatisfy((error) => isMgrpoError(error, "config-invalid") && error.message.includes(`no ${setting} to`)),
  );
});
