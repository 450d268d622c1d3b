/** @file Laws of tally's tasks as questions: two kinds, villages of their own, and a reward for the right number that was looked up. */
import { expect, test } from "vitest";
import type { Conversation } from "../../../core/contracts/conversation.ts";
import { QuestionSet } from "../../../core/contracts/question.ts";
import { questionSet as tallyQuestions, villageAsked } from "../../../recipes/tally/questions.ts";
import { questionSet } from "../../../recipes/tally/tasks/questions.ts";
import { recipe } from "../../../recipes/tally/tasks/recipe.ts";
import { rewards } from "../../../recipes/tally/tasks/rewards.ts";
import { entryOf, houseReport, NAMES, pageOf, parseTask, personReport } from "../../../recipes/tally/world.ts";

const set = questionSet(1);

test("half of the tasks are about a house, but one in eight at level 3, and the others are about a person; held-out tasks share no village with any question of tally", () => {
  expect(QuestionSet.parse(set)).toEqual(set);
  const rare = set.train.filter(({ level }) => level === 3);
  expect(rare.filter(({ kind }) => kind === "house")).toHaveLength(rare.length / 8);
  for (const split of [set.train.filter((question) => !rare.includes(question)), set.heldOut]) {
    const people = split.filter(({ prompt }) => NAMES.includes(parseTask(prompt)?.name ?? ""));
    expect(people).toEqual(split.filter(({ level, kind }) => level === 1 && kind === "person"));
    expect(people).toHaveLength(split.length / 2);
  }
  const villages = [...set.train, ...tallyQuestions(1).train, ...tallyQuestions(1).heldOut].map(villageAsked);
  expect(set.heldOut.filter((question) => villages.includes(villageAsked(question)))).toEqual([]);
  expect(questionSet(2).heldOut).toEqual(set.heldOut);
  expect(questionSet(2).train).not.toEqual(set.train);
});

test("the number counts only if what the task names was looked up; each kind has its case study", async () => {
  for (const question of set.heldOut) {
    const entry = entryOf(villageAsked(question), parseTask(question.prompt)?.name ?? "");
    if (!entry) throw new Error(`unknown: ${question.prompt}`);
    const [tool, argument] = question.kind === "person" ? ["lookup", "name"] : ["survey", "house"];
    const number = Number(question.answer);
    const report = (value: number) =>
      question.kind === "person" ? personReport(value, pageOf(entry)) : houseReport(value);
    const conversation = (name: string | undefined, value: number): Conversation => ({
      prompt: question.prompt,
      turns: [
        {
          text: "",
          calls: [{ name: tool as string, arguments: { [argument as string]: name ?? "" } }],
          responses: [{ name: tool as string, text: "" }],
        },
      ],
      stop: "answered",
      answer: report(value),
      fault: null,
    });
    const named = parseTask(question.prompt)?.name;
    const checked = (answered: Conversation) =>
      recipe.caseStudies?.map((study) => study.checks(question, { conversation: answered, invocations: [] }));
    const expected = (isCorrect: boolean) => (question.kind === "person" ? [[isCorrect], []] : [[], [isCorrect]]);
    const [right, wrong, guessed] = [
      conversation(named, number),
      conversation(named, number + 1),
      conversation("Nobody", number),
    ];
    expect([right, wrong, guessed].map((one) => rewards.correct(question, one))).toEqual([1, 0, 0]);
    expect([right, wrong, guessed].map(checked)).toEqual([expected(true), expected(false), expected(false)]);
  }
});
