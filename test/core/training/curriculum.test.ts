/**
 * @file The curriculum: no question is skipped or repeated within an epoch, whatever the step sizes; each stage begins on time and keeps its
 * position; replacement rounds ask what their step has reserved; invalid and empty stages are refused.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Question } from "../../../core/contracts/question.ts";
import { isMgrpoError } from "../../../core/errors.ts";
import { stream } from "../../../core/random.ts";
import { drawQuestions, drawReserve, initialCurriculum, stageOf } from "../../../core/training/curriculum.ts";
import { resolveConfig } from "../../../core/training/resolve-config.ts";

const questionsOf = (n: number, level = 1): Question[] =>
  Array.from({ length: n }, (_, i) => ({
    id: `${level}-${i}`,
    kind: "plain",
    level,
    prompt: "?",
    answer: "",
    facts: null,
  }));

const oneStage = (seed: number) => ({ seed, curriculum: [{ from: 0, levels: [1] }] });

const BY_SHARE = [
  { from: 0, levels: [1] },
  { from: 0.2, levels: [2] },
];

test("a stage with a share begins once that share of the tokens or of the steps, whichever comes first, is reached", () => {
  const stage = (sampledTokens: number | null) => (step: number, sampledBefore: number) =>
    stageOf({ curriculum: BY_SHARE, steps: 100, sampledTokens }, { step, sampledBefore });
  expect([0, 19, 20, 99].map((step) => stage(null)(step, 10 ** 6))).toEqual([0, 0, 1, 1]);
  // The share of 0.2 is 1000 of 5000 tokens, or step 20 of 100.
  expect([stage(5000)(1, 999), stage(5000)(2, 1000), stage(5000)(19, 999), stage(5000)(20, 0)]).toEqual([0, 1, 0, 1]);
});

test("a share of n / steps is reached at step n exactly, whatever the rounding", () => {
  for (let steps = 1; steps <= 120; steps++) {
    for (let first = 0; first < steps; first++) {
      const curriculum = [BY_SHARE[0] ?? expect.fail(), { from: first / steps, levels: [2] }];
      const stage = (step: number) => stageOf({ curriculum, steps, sampledTokens: null }, { step, sampledBefore: 0 });
      expect([stage(first), first > 0 ? stage(first - 1) : 0]).toEqual([1, 0]);
    }
  }
});

test("a stage that begins at a step ignores how many steps or tokens the run has", () => {
  const curriculum = [
    { fromStep: 0, levels: [1] },
    { fromStep: 2, levels: [2] },
  ];
  const stage = (step: number) =>
    stageOf({ curriculum, steps: 3, sampledTokens: 10 }, { step, sampledBefore: 9 * step });
  expect([0, 1, 2].map(stage)).toEqual([0, 0, 1]);
});

test.each([
  [[{ levels: [1] }], /curriculum\.0: set exactly one of from .* and fromStep/],
  [[{ from: 0, fromStep: 0, levels: [1] }], /curriculum\.0: set exactly one of from .* and fromStep/],
  [
    [
      { from: 0, levels: [1] },
      { fromStep: 5, levels: [1] },
    ],
    /curriculum: set from .* the same one in every stage/,
  ],
  [[{ from: 0.1, levels: [1] }], /curriculum\.0: the first stage must start at 0/],
  [
    [
      { from: 0, levels: [1] },
      { from: 1, levels: [2] },
    ],
    /curriculum\.1\.from: Too big: expected number to be <1/,
  ],
  [[{ fromStep: 1, levels: [1] }], /curriculum\.0: the first stage must start at 0/],
  [
    [
      { from: 0, levels: [1] },
      { from: 0.5, levels: [2] },
      { from: 0.5, levels: [3] },
    ],
    /curriculum\.2: must start after/,
  ],
  [
    [
      { from: 0, levels: [1] },
      { from: 20, levels: [2] },
    ],
    /curriculum\.1\.from/,
  ],
])("invalid stages are refused: %j", (curriculum, message) => {
  const recipe = { name: "tiny", config: { steps: 4, agents: { main: { model: "m" } } } };
  const set = [`curriculum=${JSON.stringify(curriculum)}`];
  expect(() => resolveConfig(recipe, { run: "r", seed: 1, arm: "mgrpo", set })).toThrow(message);
});

test("every epoch asks each question once, however it is divided into steps", () => {
  fc.assert(
    fc.property(
      fc.nat(),
      fc.integer({ min: 1, max: 12 }),
      fc.array(fc.integer({ min: 1, max: 9 })),
      (seed, n, counts) => {
        const plan = oneStage(seed);
        let state = initialCurriculum(plan);
        const asked: string[] = [];
        for (const count of counts) {
          const draw = drawQuestions(plan, questionsOf(n), 0, state, count);
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
  const second = drawQuestions(plan, questions, 0, first.curriculum, 13);
  expect([...first.questions, ...second.questions]).toEqual(whole.questions);
  expect(drawQuestions(oneStage(6), questions, 0, initialCurriculum(plan), 20).questions).not.toEqual(whole.questions);
});

test("a stage asks its own levels, and keeps the other stages' positions", () => {
  const plan = { seed: 1, curriculum: BY_SHARE };
  const questions = [...questionsOf(4, 1), ...questionsOf(4, 2)];
  const one = drawQuestions(plan, questions, 0, initialCurriculum(plan), 3);
  const two = drawQuestions(plan, questions, 1, one.curriculum, 3);
  expect(one.questions.every((id) => id.startsWith("1-"))).toBe(true);
  expect(two.questions.every((id) => id.startsWith("2-"))).toBe(true);
  expect(two.curriculum).toEqual({ stage: 1, drawn: [3, 3] });
});

test("a replacement round asks what the step has reserved, in order, until nothing is left", () => {
  const [plan, questions] = [oneStage(5), questionsOf(20)];
  const whole = drawQuestions(plan, questions, 0, initialCurriculum(plan), 8).questions;
  const step = drawQuestions(plan, questions, 0, initialCurriculum(plan), 4, { reserve: 3 });
  const first = drawReserve(plan, questions, step.curriculum, 2);
  const second = drawReserve(plan, questions, first.curriculum, 2);
  expect([step.questions, first.questions, second.questions]).toEqual([
    whole.slice(0, 4),
    whole.slice(4, 6),
    whole.slice(6, 7),
  ]);
  expect(second.curriculum).toEqual({ stage: 0, drawn: [7] });
  expect(drawReserve(plan, questions, second.curriculum, 2)).toEqual({ questions: [], curriculum: second.curriculum });
});

test("a stage without questions is refused with a list of the available levels", () => {
  const plan = { seed: 1, curriculum: [{ from: 0, levels: [7] }] };
  expect(() => drawQuestions(plan, questionsOf(3), 0, initialCurriculum(plan), 1)).toThrow(
    "curriculum.0.levels: no training question has level 7; there are only levels 1",
  );
  const two = { seed: 1, curriculum: [{ from: 0, levels: [7, 8] }] };
  const unordered = [...questionsOf(1, 10), ...questionsOf(2, 9), ...questionsOf(1, 2)];
  expect(() => drawQuestions(two, unordered, 0, initialCurriculum(two), 1)).toThrow(
    expect.toSatisfy(
      (error) =>
        isMgrpoError(error, "config-invalid") &&
        error.message === "curriculum.0.levels: no training question has level 7, 8; there are only levels 2, 9, 10",
    ),
  );
});

test("the order of an epoch is drawn from the stream `curriculum`: a resumed run asks the same questions", () => {
  const { questions } = drawQuestions(oneStage(5), questionsOf(6), 0, { stage: 0, drawn: [6] }, 6);
  expect(questions).toEqual(
    stream(5, "curriculum", 0, 1)
      .choose(6, 6)
      .map((i) => `1-${i}`),
  );
});
