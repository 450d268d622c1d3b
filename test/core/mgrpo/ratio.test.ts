/** @file Ratios of a trajectory, and the backward pass through them, by hand. In loss.test.ts both are checked against central differences. */
import { expect, test } from "vitest";
import { ratioBackward_A, ratios_A } from "../../../core/mgrpo/ratio.ts";

const kept_A = [true, true, false];

test("ratios by hand: a sequence's ratio is over the kept tokens, and every token has it", () => {
  // Differences ln 2, ln 8 and a masked ln 3: product 16, geometric mean 4.
  const [current_A, anchor_A] = [
    [Math.log(2), Math.log(8), Math.log(3)],
    [0, 0, 0],
  ];
  const at = (level: Parameters<typeof ratios_A>[3]) => ratios_A(current_A, anchor_A, kept_A, level);
  expect(at("token")).toEqual([2, 8, 3].map((ratio) => expect.closeTo(ratio, 12)));
  expect(at("sequence")).toEqual([16, 16, 16].map((ratio) => expect.closeTo(ratio, 12)));
  expect(at("sequence-mean")).toEqual([4, 4, 4].map((ratio) => expect.closeTo(ratio, 12)));
});

test("the backward pass by hand: a masked token gets no gradient and gives the others none, whatever its dLoss/dr", () => {
  // dLoss/dr 2, 3 and 4 at ratio 1.5: g*r = 3 and 4.5, their sum 7.5, their mean 3.75.
  const at = (level: Parameters<typeof ratios_A>[3]) => ratioBackward_A([2, 3, 4], [1.5, 1.5, 1.5], kept_A, level);
  expect(at("token")).toEqual([3, 4.5, 0]);
  expect(at("sequence")).toEqual([7.5, 7.5, 0]);
  expect(at("sequence-mean")).toEqual([3.75, 3.75, 0]);
});
