/** @file The conditional writes: recorded text has a bound. */
import { expect, test } from "vitest";
import { REASON_BYTES } from "../../../core/contracts/bounds.ts";
import type { TableChange } from "../../../core/ports.ts";
import { recordFleetRefusal } from "../../../core/training/fleet-writes.ts";
import { endRun, haltFinished, recordScores } from "../../../core/training/writes.ts";

const LONG = "x".repeat(450_000);
const REWRITES: readonly (readonly [string, TableChange])[] = [
  ["a run's end", endRun("r", "halted", LONG)],
  ["the halt of a finished run", haltFinished("r", LONG)],
  ["a fleet's refusal", recordFleetRefusal({ run: "r", fleet: "gpu" }, { release: "1", reason: LONG })],
  ["a lost rollout", recordScores({ run: "r", step: 0, group: 0 }, new Map([[0, { excluded: LONG }]]))],
];

test.each(REWRITES)("the reason of %s is cut", (_what, { set }) => {
  expect(Buffer.byteLength(JSON.stringify(set))).toBeLessThan(REASON_BYTES + 100);
});
