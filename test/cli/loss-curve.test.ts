/** @file The chart of supervised training names the checkpoint that is kept, even if the start was better. */
import { expect, test } from "vitest";
import { drawLosses } from "../../cli/sft/loss-curve.ts";

test("a best checkpoint that is worse than the start is not called the lowest loss", () => {
  const evaluations = [
    { step: 0, tokens: 0, loss: 1 },
    { step: 2, tokens: 20, loss: 1.5 },
  ];
  const chart = drawLosses("main", { tokens: 20, losses: [1, 1.2], evaluations, best: 2, ended: "tokens" }, 1e-3);
  expect(chart).toContain("best checkpoint: step 2, held-out loss 1.5000; thin: raw, thick: smoothed<");
  expect(chart).not.toContain("lowest");
});
