/** @file Agreement of a judge with labels, worked by hand. */
import { expect, test } from "vitest";
import { agreementOf, type LabeledAnswer, scoreAgreementOf } from "../../../core/training/agreement.ts";
import { wilson } from "../../../core/training/confidence-interval.ts";

const answers = (...counts: [label: boolean, judged: boolean, times: number][]): LabeledAnswer[] =>
  counts.flatMap(([label, judged, times]) => Array.from({ length: times }, () => ({ label, judged })));

test("20 correct by both, 15 wrong by both, 5 and 10 different", () => {
  const found = agreementOf(answers([true, true, 20], [true, false, 5], [false, true, 10], [false, false, 15]));
  // p_o = 35 / 50 = 0.7; p_e = 0.5 * 0.6 + 0.5 * 0.4 = 0.5; (0.7 - 0.5) / 0.5 = 0.4
  expect(found).toMatchObject({ n: 50, accuracy: 0.7, kappa: expect.closeTo(0.4, 12) });
  expect(found.confusion).toEqual({ correct: { correct: 20, wrong: 5 }, wrong: { correct: 10, wrong: 15 } });
  expect(found.interval).toEqual(wilson({ n: 50, correct: 35 }));
});

test("a judge that always says correct agrees often, but no more than by chance", () => {
  expect(agreementOf(answers([true, true, 90], [false, true, 10]))).toMatchObject({ accuracy: 0.9, kappa: 0 });
});

test("a judge that always says the opposite", () => {
  expect(agreementOf(answers([true, false, 5], [false, true, 5]))).toMatchObject({ accuracy: 0, kappa: -1 });
});

test("kappa is null if all answers are correct", () => {
  expect(agreementOf(answers([true, true, 3]))).toMatchObject({ accuracy: 1, kappa: null });
});

test("scores: a judge that is too lenient has an error but correlates; one that gives everything the same score does not", () => {
  const labels = [0.1, 0.3, 0.5, 0.7, 0.9];
  const lenient = scoreAgreementOf(labels.map((label) => ({ label, judged: label + 0.1 })));
  expect(lenient).toMatchObject({
    n: 5,
    close: 1,
    meanError: expect.closeTo(0.1, 12),
    correlation: expect.closeTo(1, 12),
  });
  const constant = scoreAgreementOf(labels.map((label) => ({ label, judged: 0.5 })));
  // |0.1 - 0.5| and so on: 0.4 + 0.2 + 0 + 0.2 + 0.4 of 5.
  expect(constant).toMatchObject({
    meanAbsoluteError: expect.closeTo(0.24, 12),
    correlation: null,
    correlationInterval: null,
  });
  const opposite = scoreAgreementOf(labels.map((label) => ({ label, judged: 1 - label })));
  expect(opposite).toMatchObject({ meanError: expect.closeTo(0, 12), correlation: expect.closeTo(-1, 12) });
});
