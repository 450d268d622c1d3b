/** @file A run's progress, as a share of the whole. */
import { expect, test } from "vitest";
import { runShareAt } from "../../../core/training/progress.ts";

test("progress: the share of steps, or of sampled tokens if that is larger", () => {
  const at = (sampledTokens: number | null, step: number, sampledBefore: number) =>
    runShareAt({ steps: 10, sampledTokens }, { step, sampledBefore });
  expect(at(null, 3, 9000)).toBe(0.3);
  expect(at(1000, 3, 600)).toBe(0.6);
  expect(at(1000, 3, 100)).toBe(0.3);
  expect(at(1000, 0, 0)).toBe(0);
});
