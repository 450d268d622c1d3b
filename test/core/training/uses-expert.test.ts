/** @file When a verdict on a sub-agent's work changes a reward; otherwise no judge is asked for it. */
import { expect, test } from "vitest";
import { usesExpert } from "../../../core/training/score.ts";
import { teamConfig } from "../../fakes/scripted-team.ts";

test.each<[expert: number, turnWeight: number, trained: boolean, used: boolean]>([
  [0.5, 0, false, true],
  [0, 0.5, true, true],
  [0, 0.5, false, false],
  [0, 0, true, false],
])("with an expert weight of %d, a turnWeight of %d and trained %s, the verdict is used: %s", (...row) => {
  const [expert, turnWeight, trained, used] = row;
  const config = teamConfig({
    agents: { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s", trained } },
    algorithm: { subReward: { format: 0.5, correct: 0.5 - expert, expert }, turnWeight },
  });
  expect(usesExpert(config, "searcher")).toBe(used);
});
