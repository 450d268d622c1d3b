/** @file What a user reads of the differences between a requested record and a stored one. */
import { expect, test } from "vitest";
import { differences } from "../../../core/training/differences.ts";

test("each difference is a line with its path and both values, however deep", () => {
  const stored = { steps: 3, algorithm: { epsilon: 0.1, kl: { beta: 0 } }, suites: ["a", "b"] };
  expect(differences(structuredClone(stored), stored)).toEqual([]);
  const requested = { steps: 4, algorithm: { epsilon: 0.1, kl: { beta: 0.5 } }, suites: ["b", "a"] };
  expect(differences(requested, stored)).toEqual([
    "steps: 3 (stored), 4 (requested)",
    "algorithm.kl.beta: 0 (stored), 0.5 (requested)",
    'suites: ["a","b"] (stored), ["b","a"] (requested)',
  ]);
});

test("a value that one record lacks is shown as 'nothing'; an absent value and undefined are the same", () => {
  expect(differences({ seed: 1 }, { arm: "a" })).toEqual([
    'arm: "a" (stored), nothing (requested)',
    "seed: nothing (stored), 1 (requested)",
  ]);
  expect(differences({ seed: undefined }, {})).toEqual([]);
});

test("a record in place of another kind of value, or of null, is one difference", () => {
  expect(differences({ limits: { turns: 2 } }, { limits: null })).toEqual([
    'limits: null (stored), {"turns":2} (requested)',
  ]);
  expect(differences({ limits: 5 }, { limits: { turns: 2 } })).toEqual(['limits: {"turns":2} (stored), 5 (requested)']);
});
