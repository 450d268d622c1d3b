/** @file A scripted adversary: 10,000 attacks on the bounds that recipes/atlas/rewards.ts states. */
import { expect, test } from "vitest";
import { taskOf } from "../../../recipes/atlas/questions/look-up.ts";
import { rewards } from "../../../recipes/atlas/rewards.ts";
import { pageText } from "../../../recipes/atlas/tools.ts";
import { ATTACKS, changedByOrder, overRewarded } from "../attacks.ts";
import { drawCase, honest, reversed, rewardOf, type Target } from "../cases.ts";

const atlas: Target = {
  name: "atlas",
  rewards,
  pageText,
  taskFor: taskOf,
  describes: false,
  // The task's terms as a share of all.
  queryWorth: ({ lookUp }, terms) => (lookUp.ask === "country" ? lookUp.where.length : 1) / terms.length,
  spellings: (report) => [report, ` ${report} `, report.toUpperCase()],
  nonsense: ["capital of no such page", "country with borders nowhere", "country with capital  , borders  "],
};

test("10,000 attacks: none earns more than its search and its page are worth", { timeout: 120_000 }, () => {
  expect(overRewarded(atlas, ATTACKS, 10_000)).toEqual({});
});

test("correct work earns the full reward, however the conditions of the task are ordered and spelled", () => {
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

test("the order of a task's conditions changes no score of any behavior", () => {
  expect(changedByOrder(atlas, 500)).toEqual([]);
});
