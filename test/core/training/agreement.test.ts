/** @file Agreement of a judge with labels, worked by hand. */
import { expect, test } from "vitest";
import { agreementOf, areClose, type LabeledAnswer, scoreAgreementOf } from "../../../core/training/agreement.ts";
import { wilson } from "../../../core/training/confidence-interval.ts";

const answers = (...counts: [label: boolean, judged: boolean, times: number][]): LabeledAnswer[] =>
  counts.flatMap(([label, judged, times]) => Array.from({ length: times }, () => ({ label, judged })));

test("accuracy and kappa by hand: label and verdict agree on 20 correct and 15 wrong answers, and differ on 5 and 10", () => {
  const found = agreementOf(answers([true, true, 20], [true, false, 5], [false, true, 10], [false, false, 15]));
  // p_o = 35 / 50 = 0.7; p_e = 0.5 * 0.6 + 0.5 * 0.4 = 0.5; (0.7 - 0.5) / 0.5 = 0.4
  expect(found).toMatchObject({ n: 50, accuracy: 0.7, kappa: expect.closeTo(0.4, 12) });
  expect(found.confusion).toEqual({ correct: { correct: 20, wrong: 5 }, wrong: { correct: 10, wrong: 15 } });
  expect(found.interval).toEqual(wilson({ n: 50, correct: 35 }));
});

test("a judge that always says correct agrees often, but no more than by chance", () => {
  expect(agreementOf(answers([true, true, 90], [false, true, 10]))).toMatchObject({ accuracy: 0.9, kappa: 0 });
});

test("a judge that always says the opposite has accuracy 0 and kappa -1", () => {
  expect(agreementOf(answers([true, false, 5], [false, true, 5]))).toMatchObject({ accuracy: 0, kappa: -1 });
});

test("kappa is null if all labels and verdicts are correct", () => {
  expect(agreementOf(answers([true, true, 3]))).toMatchObject({ accuracy: 1, kappa: null });
});

test("scores: a judge that is too lenient has an error but correlates; one that gives everything the same score has no correlation", () => {
  const labels = [0.1, 0.3, 0.5, 0.7, 0.9];
  const lenient = scoreAgreementOf(labels.map((label) => ({ label, judged: label + 0.1 })));
  expect(lenient).toMatchObject({
    n: 5,
    close: 1,
    meanError: expect.closeTo(0.1, 12),
    correlation: expect.closeTo(1, 12),
  });
  const constant = scoreAgreementOf(labels.map((label) => ({ label, judged: 0.5 })));
  // |0.1 - 0.5| and so on: (0.4 + 0.2 + 0 + 0.2 + 0.4) / 5.
  expect(constant).toMatchObject({
    meanAbsoluteError: expect.closeTo(0.24, 12),
    // Only the one labeled 0.5 is close.
    close: 0.2,
    closeInterval: wilson({ n: 5, correct: 1 }),
    correlation: null,
    correlationInterval: null,
  });
  const opposite = scoreAgreementOf(labels.map((label) => ({ label, judged: 1 - label })));
  expect(opposite).toMatchObject({ meanError: expect.closeTo(0, 12), correlation: expect.closeTo(-1, 12) });
});

test("kappa and the confusion matrix do not mix up labels and verdicts", () => {
  const found = agreementOf(answers([true, true, 6], [true, false, 3], [false, true, 1], [false, false, 2]));
  // p_o = 8/12; labels correct 9/12, verdicts correct 7/12; p_e = 63/144 + 15/144 = 78/144; kappa = (96 - 78)/(144 - 78) = 3/11.
  expect(found.kappa).toBeCloseTo(3 / 11, 12);
  expect(found.confusion).toEqual({ correct: { correct: 6, wrong: 3 }, wrong: { correct: 1, wrong: 2 } });
});

test("scores are close within 0.1 in either direction, whatever the rounding", () => {
  for (const [label, judged, close] of [
    [0.7, 0.8, true],
    [0.8, 0.7, true],
    [0.3, 0.4, true],
    [0.7, 0.81, false],
    [0.81, 0.7, false],
  ] as const) {
    expect(areClose({ label, judged })).toBe(close);
  }
});

test("the correlation of six scores by hand, with Fisher's interval", () => {
  // Deviations of 1..6 are -2.5 .. 2.5, of 2, 1, 4, 3, 6, 5 the same in another order: products 3.75 + 3.75 + -0.25 + -0.25 + 3.75 + 3.75 = 14.5,
  // squares 17.5: r = 14.5/17.5. The interval is tanh(atanh(r) -+ 1.96 / sqrt(3)).
  const pairs = [2, 1, 4, 3, 6, 5].map((judged, i) => ({ label: (i + 1) / 10, judged: judged / 10 }));
  const found = scoreAgreementOf(pairs);
  expect(found.correlation).toBeCloseTo(14.5 / 17.5, 12);
  const [center, half] = [Math.atanh(14.5 / 17.5), 1.96 / Math.sqrt(3)];
  expect(found.correlationInterval?.low).toBeCloseTo(Math.tanh(center - half), 12);
  expect(found.correlationInterval?.high).toBeCloseTo(Math.tanh(center + half), 12);
  // Every score is 0.1 from its label: all are close.
  expect(found).toMatchObject({ close: 1, closeInterval: wilson({ n: 6, correct: 6 }) });
});

test("three scores have a correlation but no interval; four have an interval, unless they lie on a line", () => {
  const of = (...judged: number[]) => scoreAgreementOf(judged.map((score, i) => ({ label: i / 10, judged: score })));
  expect(of(0.1, 0, 0.3).correlation).toBeGreaterThan(0);
  expect(of(0.1, 0, 0.3).correlationInterval).toBeNull();
  expect(of(0.1, 0, 0.3, 0.2).correlationInterval).not.toBeNull();
  expect(of(0, 0.1, 0.2, 0.3)).toMatchObject({ correlation: 1, correlationInterval: null });
  expect(of(0.3, 0.2, 0.1, 0)).toMatchObject({ correlation: -1, correlationInterval: null });
  expect(of(0.5, 0.5, 0.5, 0.5).correlation).toBeNull();
  // These scores lie on a line only up to rounding.
  for (let shift = 1; shift <= 60; shift++)
    expect(of(...[0, 0.1, 0.2, 0.3].map((score) => score + shift / 100)).correlationInterval).toBeNull();
});
