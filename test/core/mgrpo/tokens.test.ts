/** @file Tokens and action tokens: values are mapped between them, and damaged trajectories are refused. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { isMgrpoError } from "../../../core/errors.ts";
import { actionPositions_A, gather, scatter } from "../../../core/mgrpo/tokens.ts";

const trajectory = (T: number, actions: [number, number][], A: number) => ({
  agent: "main",
  version: 0,
  tokens: Array.from({ length: T }, (_, t) => t),
  actions,
  logProbs: new Array<number>(A).fill(-1),
});

test("scatter puts values on action tokens and 0 elsewhere; gather is its inverse", () => {
  const positions = actionPositions_A(
    trajectory(
      8,
      [
        [2, 4],
        [5, 8],
      ],
      5,
    ),
  );
  expect(positions).toEqual([2, 3, 5, 6, 7]);
  expect([...scatter([1, 2, 3, 4, 5], positions, 8)]).toEqual([0, 0, 1, 2, 0, 3, 4, 5]);
  // Without denormals: an earlier onnxruntime session in this process may have set the CPU to flush them to 0.
  const normal = fc.float({ noNaN: true }).filter((value) => value === 0 || Math.abs(value) >= 2 ** -126);
  fc.assert(
    fc.property(fc.array(normal, { minLength: 5, maxLength: 5 }), (values) => {
      expect(gather(scatter(values, positions, 8), positions)).toEqual(values);
    }),
  );
});

test.each([
  ["token 0, which nothing predicts", trajectory(3, [[0, 2]], 2)],
  ["an empty span", trajectory(3, [[1, 1]], 0)],
  ["a span past the end", trajectory(3, [[1, 4]], 3)],
  [
    "overlapping spans",
    trajectory(
      5,
      [
        [1, 3],
        [2, 4],
      ],
      4,
    ),
  ],
  ["too few log-probs", trajectory(5, [[1, 3]], 1)],
])("refuses %s", (_what, damaged) => {
  expect(() => actionPositions_A(damaged)).toThrow(expect.toSatisfy((error) => isMgrpoError(error, "record-damaged")));
});
