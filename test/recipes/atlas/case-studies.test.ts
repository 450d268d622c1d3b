/** @file The case studies: single conversations with a known verdict, and the correct calls of every held-out question. */
import { describe, expect, test } from "vitest";
import type { Conversation, ToolCall } from "../../../core/contracts/conversation.ts";
import type { Question } from "../../../core/contracts/question.ts";
import { caseStudies } from "../../../recipes/atlas/case-studies.ts";
import { Facts } from "../../../recipes/atlas/questions/facts.ts";
import { KINDS } from "../../../recipes/atlas/questions/kinds.ts";
import { questionSet } from "../../../recipes/atlas/questions/questions.ts";

const { heldOut } = questionSet(1);
const ofKind = (kind: string) => heldOut.find((question) => question.kind === kind) ?? expect.fail();
const lookUp = (task: string) => ({ name: "delegate", arguments: { agent: "searcher", task } });
const calculate = { name: "calculate", arguments: { expression: "2 - 1" } };

function checks(study: string, question: Question, calls: readonly ToolCall[]) {
  const turns = calls.map((call) => ({ text: "", calls: [call], responses: [] }));
  const conversation: Conversation = { prompt: "", turns, stop: "answered", answer: "x", fault: null };
  const found = caseStudies.find(({ name }) => name === study) ?? expect.fail();
  return found.checks(question, { conversation, invocations: [] });
}

/** The calls that the question needs, in order. */
const correctCalls = (question: Question) => [
  ...Facts.parse(question.facts).lookUps.map(({ task }) => lookUp(task)),
  ...(question.kind === "compare" ? [calculate] : []),
];

test.each(Object.keys(KINDS))("%s: the correct calls count as correct", (kind) => {
  const questions = heldOut.filter((one) => one.kind === kind);
  expect(questions).not.toEqual([]);
  for (const question of questions) {
    expect(checks("tool choice", question, correctCalls(question))).toEqual([true]);
    const delegated = checks("delegation", question, correctCalls(question));
    const several = ["constraints", "hop-constraints", "hop3"].includes(kind);
    expect(delegated).toEqual(several ? [true] : []);
  }
});

describe("tool choice", () => {
  const [compare, hop] = [ofKind("compare"), ofKind("hop1")];
  test.each<[string, boolean, Question, readonly ToolCall[]]>([
    ["answering without a call", false, hop, []],
    ["calculating a fact instead of looking it up", false, hop, [calculate]],
    ["looking up a fact, then a needless calculation", false, hop, [...correctCalls(hop), calculate]],
    ["looking up a fact without delegating", true, hop, [{ name: "search", arguments: { query: "x" } }]],
    ["looking up two numbers without a calculation", false, compare, correctCalls(compare).slice(0, -1)],
    ["calculating with numbers that were not looked up", false, compare, [calculate]],
  ])("%s: correct is %s", (_what, correct, question, calls) =>
    expect(checks("tool choice", question, calls)).toEqual([correct]),
  );
});

describe("delegation", () => {
  const question = ofKind("constraints");
  const [whole = ""] = Facts.parse(question.facts).lookUps.map(({ task }) => task);
  const [first = "", second = ""] = whole.replace("country with ", "").split(", ");
  test("conditions count in any order; a dropped condition, a task that does not parse and a wrong value are incorrect", () => {
    const tasks = [
      whole,
      `country with ${second}, ${first}`,
      `country with ${first}`,
      "anything about it",
      `${whole}x`,
    ];
    expect(checks("delegation", question, tasks.map(lookUp))).toEqual([true, true, false, false, false]);
  });
  test("a delegation that asks for a fact is not checked", () => {
    expect(checks("delegation", question, [lookUp("capital of Jordan")])).toEqual([]);
  });
  test("in a longer chain, the value of an earlier answer may be wrong, but no condition may be dropped", () => {
    const longer = ofKind("hop3");
    const [, link = ""] = Facts.parse(longer.facts).lookUps.map(({ task }) => task);
    const [, rest = ""] = /^country with borders [^,]+, (.*)$/.exec(link) ?? expect.fail();
    const tasks = [`country with borders Nowhere, ${rest}`, `country with ${rest}`, "country with borders Nowhere"];
    expect(checks("delegation", longer, tasks.map(lookUp))).toEqual([true, false, false]);
  });
  test("a wrong earlier answer does not make a delegation incorrect, even if the correct one is a substring of another name in the question", () => {
    const lookUps = [
      { task: "country with capital Mexico City", answer: "Mexico" },
      { task: "country with borders Mexico, language Spanish", answer: "Guatemala" },
    ];
    const prompt = "Of the neighbours of the country that has the capital Mexico City, one speaks Spanish: ...";
    const longer = { ...ofKind("hop3"), prompt, facts: { world: 0, chain: "", lookUps } };
    expect(checks("delegation", longer, [lookUp("country with borders Nowhere, language Spanish")])).toEqual([true]);
  });
});
