/**
 * @file A scripted adversary: 10,000 attacks on the bounds that recipes/atlas/rewards.ts states. Also that correct work earns the full reward, and
 * that the order of a task's conditions does not matter.
 */
import { expect, test } from "vitest";
import { ATTACKS, changedByOrder, overRewarded } from "../attacks.ts";
import { drawCase, honest, reversed, rewardOf } from "../cases.ts";
import { atlas } from "./target.ts";

test("10,000 attacks: none earns more than its search and its page are worth", () => {
  expect(overRewarded(atlas, ATTACKS, 10_000)).toEqual({});
});

test("correct work earns the full reward, however its task is ordered and spaced and its report is spelled", () => {
  for (let i = 0; i < 2000; i++) {
    const given = drawCase(atlas, i);
    const { task } = given;
    const behavior = honest(given);
    for (const wording of [task, reversed(given), ` ${task} `, task.replaceAll(" ", "  ")]) {
      for (const report of atlas.spellings(behavior.report)) {
        expect(rewardOf(given, { ...behavior, task: wording, report })).toBe(1);
      }
    }
  }
});

test("reordering the conditions of a task does not change the score of an attack", () => {
  expect(changedByOrder(atlas, 500)).toEqual([]);
});
