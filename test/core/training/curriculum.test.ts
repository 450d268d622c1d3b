/** @file The curriculum: no question is skipped or repeated within an epoch, whatever the sizes of steps; stages in order. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Question } from "../../../core/contracts/question.ts";
import { drawQuestions, initialCurriculum, stageOf } from "../../../core/training/curriculum.ts";

const questionsOf = (n: number, level = 1): Question[] =>
  Array.from({ length: n }, (_, i) => ({
    ...{ id: `${level}-${i}`, kind: "plain", level, prompt: "?", answer: "", facts: null },
  }));

const oneStage = (seed: number) => ({ seed, curriculum: [{ fromStep: 0, levels: [1] }] });

test("every epoch asks every question once, however it is divided into steps", () => {
  fc.assert(
    fc.property(
      fc.nat(),
      fc.integer({ min: 1, max: 12 }),
      fc.array(fc.integer({ min: 1, max: 9 })),
      (seed, n, counts) => {
        const plan = oneStage(seed);
        let state = initialCurriculum(plan);
        const asked: string[] = [];
        for (const [step, count] of counts.entries()) {
          const draw = drawQuestions(plan, questionsOf(n), step, state, count);
          asked.push(...draw.questions);
          state = draw.curriculum;
        }
        expect(asked).toHaveLength(counts.reduce((a, b) => a + b, 0));
        for (let epoch = 0; epoch * n < asked.length; epoch++) {
          const part = asked.slice(epoch * n, (epoch + 1) * n);
          expect(new Set(part).size).toBe(part.length);
        }
      },
    ),
  );
});

test("drawn at once or in parts, the questions are the same; another seed has another order", () => {
  const [plan, questions] = [oneStage(5), questionsOf(20)];
  const whole = drawQuestions(plan, questions, 0, initialCurriculum(plan), 20);
  const first = drawQuestions(plan, questions, 0, initialCurriculum(plan), 7);
  const second = drawQuestions(plan, questions, 1, first.curriculum, 13);
  expect([...first.questions, ...second.questions]).toEqual(whole.questions);
  expect(drawQuestions(oneStage(6), questions, 0, initialCurriculum(plan), 20).questions).not.toEqual(whole.questions);
});

test("a stage asks its own levels from its first step, and keeps the other stages' positions", () => {
  const plan = {
    seed: 1,
    curriculum: [
      { fromStep: 0, levels: [1] },
      { fromStep: 2, levels: [2] },
    ],
  };
  const questions = [...questionsOf(4, 1), ...questionsOf(4, 2)];
  expect([0, 1, 2, 3].map((step) => stageOf(plan, step))).toEqual([0, 0, 1, 1]);
  const one = drawQuestions(plan, questions, 1, initialCurriculum(plan), 3);
  const two = drawQuestions(plan, questions, 2, one.curriculum, 3);
  expect(one.questions.every((id) => id.startsWith("1-"))).toBe(true);
  expect(two.questions.every((id) => id.startsWith("2-"))).toBe(true);
  expect(two.curriculum).toEqual({ stage: 1, drawn: [3, 3] });
});

test("a stage without questions is refused with the available levels", () => {
  const plan = { seed: 1, curriculum: [{ fromStep: 0, levels: [7] }] };
  expect(() => drawQuestions(plan, questionsOf(3), 0, initialCurriculum(plan), 1)).toThrow(
    "curriculum.0.levels: no training question has level 7; the recipe has levels 1",
  );
});
