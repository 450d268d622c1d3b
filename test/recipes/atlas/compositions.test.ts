/** @file 10,000 random compositions of a searcher's behaviors against atlas's rewards, each from its own stream. */
import { expect, test } from "vitest";
import { stream } from "../../../core/random.ts";
import { drawCase, honest, rewardOf } from "../cases.ts";
import { type Composition, composition } from "../compositions.ts";
import { atlas } from "./target.ts";

const [CASES, EACH] = [250, 40];

/** Every composition, with its reward, that of honest work on the same task, and its reward with each call repeated. */
function* rewarded(): Generator<
  Composition & { readonly reward: number; readonly ofHonest: number; readonly repeated: number }
> {
  for (let i = 0; i < CASES; i++) {
    const given = drawCase(atlas, i);
    const ofHonest = rewardOf(given, honest(given));
    for (let j = 0; j < EACH; j++) {
      const composed = composition({ ...given, random: stream("atlas-compositions", i, j) });
      const { searches, visits, ...rest } = composed.behavior;
      const twice = { ...rest, searches: [...searches, ...searches], visits: [...visits, ...visits] };
      yield { ...composed, reward: rewardOf(given, composed.behavior), ofHonest, repeated: rewardOf(given, twice) };
    }
  }
}

test("10,000 compositions: none earns more than honest work, or than its correct parts are worth; repeating its calls changes nothing", () => {
  const earned: number[] = [];
  for (const { behavior, maximum, reward, ofHonest, repeated } of rewarded()) {
    if (reward > ofHonest) expect.fail(`${reward}, and honest work ${ofHonest}: ${JSON.stringify(behavior)}`);
    if (reward > maximum + 1e-9) expect.fail(`${reward} instead of ${maximum}: ${JSON.stringify(behavior)}`);
    if (repeated !== reward)
      expect.fail(`${repeated} with calls repeated, ${reward} without: ${JSON.stringify(behavior)}`);
    earned.push(reward);
  }
  expect(earned).toHaveLength(CASES * EACH);
  // They include honest work, work that is worth nothing, and much in between.
  expect(earned.filter((reward) => reward === 1).length).toBeGreaterThan(200);
  expect(earned.filter((reward) => reward === 0).length).toBeGreaterThan(500);
  expect(new Set(earned).size).toBeGreaterThan(10);
});
