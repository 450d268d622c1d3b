/** @file Which part of its question set a suite asks, and what a suite may be named. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { EvaluationSuite, questionsAsked } from "../../../core/contracts/evaluation-suite.ts";
import { teamConfig } from "../../fakes/scripted-team.ts";

const suite = (settings: object) => EvaluationSuite.parse({ name: "any", ...settings });

test("by default a suite asks its whole set; `skip` and `questions` select a part of it", () => {
  expect(questionsAsked(suite({}), [1, 2, 3])).toEqual([1, 2, 3]);
  expect(questionsAsked(suite({ questions: 2 }), [1, 2, 3])).toEqual([1, 2]);
  expect(questionsAsked(suite({ skip: 1 }), [1, 2, 3])).toEqual([2, 3]);
  expect(questionsAsked(suite({ skip: 1, questions: 1 }), [1, 2, 3])).toEqual([2]);
});

test("the first n questions and those after skipping n together are the whole set, with no overlap", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer()), fc.integer({ min: 1, max: 20 }), (set, n) => {
      const [first, others] = [questionsAsked(suite({ questions: n }), set), questionsAsked(suite({ skip: n }), set)];
      expect([...first, ...others]).toEqual(set);
    }),
  );
});

test("two suites with the same name are refused: jobs and questions are looked up by name", () => {
  const suites = [{ name: "held-out" }, { name: "greedy" }, { name: "held-out", temperature: 0 }];
  expect(() => teamConfig({ evaluation: { suites } })).toThrow("two suites are named 'held-out'");
});

test("a suite cannot have the name of a property that every object inherits, since its questions are looked up by name", () => {
  expect(() => suite({ name: "constructor" })).toThrow("a suite cannot have this name");
});
