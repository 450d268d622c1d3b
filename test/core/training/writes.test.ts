/** @file The conditional writes: a long reason is shortened, not dropped. */
import { expect, test } from "vitest";
import { REASON_BYTES } from "../../../core/contracts/bounds.ts";
import type { TableChange } from "../../../core/ports.ts";
import { recordFleetRefusal } from "../../../core/training/fleet-writes.ts";
import { endRun, haltFinished, recordScores } from "../../../core/training/writes.ts";

const LONG_REASON = "x".repeat(450_000);
const WRITES: readonly (readonly [string, TableChange])[] = [
  ["a run's end", endRun("r", { code: "user", reason: LONG_REASON })],
  ["the halt of a finished run", haltFinished("r", { code: "user", reason: LONG_REASON })],
  ["a fleet's refusal", recordFleetRefusal({ run: "r", fleet: "gpu" }, { release: "1", reason: LONG_REASON })],
  ["a lost rollout", recordScores({ run: "r", step: 0, group: 0 }, new Map([[0, { excluded: LONG_REASON }]]))],
];

test.each(WRITES)("the reason of %s is shortened", (_what, { set }) => {
  const written = JSON.stringify(set);
  expect(written).toMatch(/x{100} … \(\d+ bytes left out\) … x{100}/);
  expect(Buffer.byteLength(written)).toBeLessThan(REASON_BYTES + 100);
});
