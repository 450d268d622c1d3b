/** @file A step whose last rollouts end together, in a simulation. */
import { expect, test } from "vitest";
import { groupInsertions, simulated } from "./simulated.ts";

test("each group is inserted once: no two functions open a step together", async () => {
  // With rollouts of one turn, the last of a step end so close together that several calls of score-rollout find the step sampled.
  const crowded = ["--set", "agents.main.limits.turns=1", "--set", "questionsPerStep=64"];
  const { figures } = await simulated("--rollouts-per-minute", "512", "--agents", "2", ...crowded);
  const [inserted, refused] = groupInsertions(figures);
  // Eight rollouts per question.
  expect(inserted).toBeCloseTo(1 / 8, 10);
  expect(refused).toBe(0);
});
