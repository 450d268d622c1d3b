/** @file Named streams: the same name gives the same draws, another name gives others; draws and choices are uniform. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { stream } from "../../core/random.ts";

const draws = (n: number, ...name: (string | number)[]) => {
  const random = stream(...name);
  return Array.from({ length: n }, () => random.uniform());
};

test("the same name gives the recorded draws: every recorded run depends on them", () => {
  expect(draws(3, 1, "sample", 0)).toEqual(draws(3, 1, "sample", 0));
  expect(draws(3, "recorded", 7).map((x) => Math.floor(x * 2 ** 32))).toMatchInlineSnapshot(`
    [
      92969571,
      11670768,
      2252704645,
    ]
  `);
});

test("names with different parts give different streams, even if their joined texts are the same", () => {
  expect(draws(4, "ab", "c")).not.toEqual(draws(4, "a", "bc"));
  expect(draws(4, 1, 12)).not.toEqual(draws(4, 11, 2));
  expect(draws(4, "1")).not.toEqual(draws(4, 1));
});

test("uniform: mean 1/2, variance 1/12, a tenth of the draws in each tenth, over the first draws of many streams", () => {
  const n = 20_000;
  const first = Array.from({ length: n }, (_, i) => stream("first", i).uniform());
  const mean = first.reduce((a, b) => a + b) / n;
  const variance = first.reduce((a, b) => a + (b - mean) ** 2, 0) / n;
  // Standard errors: mean sqrt(1/12/n) = 0.0020, variance 0.0005, share sqrt(0.09/n) = 0.0021. The bounds are about five of each.
  expect(Math.abs(mean - 0.5)).toBeLessThan(0.01);
  expect(Math.abs(variance - 1 / 12)).toBeLessThan(0.003);
  for (let tenth = 0; tenth < 10; tenth++) {
    const share = first.filter((x) => Math.floor(x * 10) === tenth).length / n;
    expect(Math.abs(share - 0.1)).toBeLessThan(0.011);
  }
});

test("choose gives distinct indices in range, as many as requested or available", () => {
  fc.assert(
    fc.property(fc.nat(40), fc.nat(50), fc.nat(), (n, count, seed) => {
      const chosen = stream("choose", seed).choose(n, count);
      expect(chosen).toHaveLength(Math.min(n, count));
      expect(new Set(chosen).size).toBe(chosen.length);
      expect(chosen.every((i) => i >= 0 && i < n)).toBe(true);
    }),
  );
});

test("choose is uniform: each of 4 is first a quarter of the time", () => {
  const counts = [0, 0, 0, 0];
  for (let seed = 0; seed < 8000; seed++) {
    const [first = 0] = stream("uniform choice", seed).choose(4, 2);
    counts[first] = (counts[first] ?? 0) + 1;
  }
  // Standard error of a count: sqrt(8000 * 3/16) = 39. The bound is five of them.
  for (const count of counts) expect(Math.abs(count - 2000)).toBeLessThan(195);
});
