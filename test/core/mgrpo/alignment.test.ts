/** @file Laws of trajectory alignment (section 4.1), and the brute-force expectation of `resample`. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { align, shareAboveTarget } from "../../../core/mgrpo/alignment.ts";
import { type Random, stream } from "../../../core/random.ts";

const counts = fc.array(fc.nat({ max: 7 }), { minLength: 2, maxLength: 8 });
const target = fc.integer({ min: 1, max: 6 });
const mode = fc.constantFrom("resample" as const, "weighted" as const, "none" as const);
const seeded = (seed: number) => (k: number) => stream(seed, k);
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

test("'resample' gives every rollout that has calls exactly d trajectories, and counts the copies that it adds and the trajectories that it drops", () => {
  fc.assert(
    fc.property(counts, target, fc.nat(), (calls_K, d, seed) => {
      const { multiplicities, duplicated, dropped } = align(calls_K, { mode: "resample", d }, seeded(seed));
      multiplicities.forEach((copies, k) => {
        expect(copies).toHaveLength(calls_K[k] ?? 0);
        expect(sum(copies)).toBe(copies.length === 0 ? 0 : d);
        if (copies.length <= d) expect(Math.min(d, ...copies)).toBeGreaterThanOrEqual(1);
        else expect(copies.every((m) => m <= 1)).toBe(true);
      });
      expect(duplicated).toBe(sum(calls_K.map((d_k) => (d_k > 0 ? Math.max(0, d - d_k) : 0))));
      expect(dropped).toBe(sum(calls_K.map((d_k) => Math.max(0, d_k - d))));
    }),
  );
});

test("weights sum to 1, shared equally among the rollouts with calls, or under 'none' among the trajectories", () => {
  fc.assert(
    fc.property(counts, target, mode, fc.nat(), (calls_K, d, which, seed) => {
      fc.pre(sum(calls_K) > 0);
      const { weights } = align(calls_K, { mode: which, d }, seeded(seed));
      expect(sum(weights.flat())).toBeCloseTo(1, 12);
      if (which === "none") {
        for (const weight of weights.flat()) expect(weight).toBeCloseTo(1 / sum(calls_K), 12);
        return;
      }
      const callers = calls_K.filter((d_k) => d_k > 0).length;
      for (const shares of weights.filter((shares) => shares.length > 0)) {
        expect(sum(shares)).toBeCloseTo(1 / callers, 12);
      }
    }),
  );
});

test("modes 'weighted' and 'none' copy, drop and draw nothing", () => {
  const never = () => {
    throw new Error("drew");
  };
  for (const which of ["weighted", "none"] as const) {
    const { multiplicities, duplicated, dropped } = align([3, 0, 1], { mode: which, d: 2 }, never);
    expect(multiplicities).toEqual([[1, 1, 1], [], [1]]);
    expect([duplicated, dropped]).toEqual([0, 0]);
  }
});

test("'resample' draws nothing for a rollout with d calls or no calls", () => {
  const asked: number[] = [];
  align([2, 0, 3, 2, 1], { mode: "resample", d: 2 }, (k) => {
    asked.push(k);
    return stream(k);
  });
  expect(asked).toEqual([2, 4]);
});

test("a rollout with d_k = 0 borrows nothing: the shares of the others are the same without it", () => {
  const random = seeded(3);
  const among = align([2, 0, 3], { mode: "resample", d: 4 }, (k) => random(k === 2 ? 1 : k));
  const alone = align([2, 3], { mode: "resample", d: 4 }, random);
  expect(among.weights).toEqual([alone.weights[0], [], alone.weights[1]]);
});

test("without calls nothing is aligned", () => {
  expect(align([0, 0], { mode: "resample", d: 2 }, seeded(1))).toEqual({
    multiplicities: [[], []],
    weights: [[], []],
    duplicated: 0,
    dropped: 0,
  });
});

test("averaged over all draws, the weights of 'resample' are those of 'weighted'", () => {
  for (const [calls_K, d] of [
    [[1, 2, 3], 3],
    [[3, 0, 2], 4],
    [[4, 1], 2],
    [[5, 3, 2], 2],
  ] as const) {
    const weighted = align(calls_K, { mode: "weighted", d }, seeded(0)).weights;
    for (let k = 0; k < calls_K.length; k++) {
      const others = seeded(9);
      const expected = new Array<number>(calls_K[k] ?? 0).fill(0);
      everyDraw((random, probability) => {
        const { weights } = align(calls_K, { mode: "resample", d }, (j) => (j === k ? random() : others(j)));
        weights[k]?.forEach((weight, i) => {
          expected[i] = (expected[i] ?? 0) + probability() * weight;
        });
      });
      expected.forEach((weight, i) => {
        expect(weight).toBeCloseTo(weighted[k]?.[i] ?? Number.NaN, 12);
      });
    }
  }
});

test("shareAboveTarget (eq 11) is the share of rollouts with more than d calls", () => {
  expect(shareAboveTarget([3, 1, 2, 3, 1], 2)).toBeCloseTo(0.4);
  expect(shareAboveTarget([], 2)).toBe(0);
});

/** Visits every sequence of draws once, with its probability. `integer(n)` of its Random counts through all values like an odometer. */
function everyDraw(visit: (random: () => Random, probability: () => number) => void): void {
  const digits: { value: number; base: number }[] = [];
  for (;;) {
    let position = 0;
    const integer = (base: number) => {
      const digit = digits[position] ?? { value: 0, base };
      digits[position] = digit;
      position++;
      return digit.value;
    };
    const random: Random = {
      integer,
      uniform: () => {
        throw new Error("alignment draws integers only");
      },
      choose(n, count) {
        const left = Array.from({ length: n }, (_, i) => i);
        return Array.from({ length: count }, () => left.splice(integer(left.length), 1)[0] ?? 0);
      },
    };
    visit(
      () => random,
      () => digits.reduce((product, { base }) => product / base, 1),
    );
    while (digits.length > 0 && (digits.at(-1)?.value ?? 0) + 1 === digits.at(-1)?.base) digits.pop();
    const last = digits.at(-1);
    if (!last) return;
    last.value++;
  }
}
