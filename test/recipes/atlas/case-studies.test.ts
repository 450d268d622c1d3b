/** @file The case studies on worked conversations and on the question set: correct behavior counts as correct in every kind of question. */
import { describe, expect, test } from "vitest";
import type { Conversation } from "../../../core/contracts/conversation.ts";
import type { Question } from "../../../core/contracts/question.ts";
import { caseStudies } from "../../../recipes/atlas/case-studies.ts";
import { Facts } from "../../../recipes/atlas/questions/facts.ts";
import { KINDS } from "../../../recipes/atlas/questions/kinds.ts";
import { questionSet } from "../../../recipes/atlas/questions/questions.ts";

const { heldOut } = questionSet(1);
const ofKind = (kind: string) => heldOut.find((question) => question.kind === kind) ?? expect.fail();
const lookUp = (task: string) => ({ name: "delegate", arguments: { agent: "searcher", task } });
const calculate = { name: "calculate", arguments: { expression: "2 - 1" } };

function occasions(study: string, question: Question, calls: Conversation["turns"][number]["calls"]) {
  const turns = calls.map((call) => ({ text: "", calls: [call], responses: [] }));
  const conversation: Conversation = { prompt: "", turns, stop: "answered", answer: "x", fault: null };
  const found = caseStudies.find(({ name }) => name === study) ?? expect.fail();
  return found.occasions(question, { conversation, invocations: [] });
}

/** What the question's chain asks for, in order. */
const correctCalls = (question: Question) => [
  ...Facts.parse(question.facts).lookUps.map(({ task }) => lookUp(task)),
  ...(question.kind === "compare" ? [calculate] : []),
];

test.each(Object.keys(KINDS))("%s: following the chain counts every occasion as correct", (kind) => {
  for (const question of heldOut.filter((one) => one.kind === kind)) {
    expect(occasions("tool choice", question, correctCalls(question))).toEqual([true]);
    const delegated = occasions("delegation", question, correctCalls(question));
    const several = ["constraints", "hop-constraints", "hop3"].includes(kind);
    expect(delegated).toEqual(several ? [true] : []);
  }
});

describe("tool choice", () => {
  const [compare, hop] = [ofKind("compare"), ofKind("hop1")];
  test.each<[string, Question, Conversation["turns"][number]["calls"], boolean]>([
    ["a guess", hop, [], false],
    ["a fact that is calculated", hop, [calculate], false],
    ["a fact that is looked up and calculated with", hop, [...correctCalls(hop), calculate], false],
    ["a fact that one agent looks up by itself", hop, [{ name: "search", arguments: { query: "x" } }], true],
    ["a sum in the head", compare, correctCalls(compare).slice(0, -1), false],
    ["a sum of numbers that nobody looked up", compare, [calculate], false],
  ])("%s", (_what, question, calls, correct) => expect(occasions("tool choice", question, calls)).toEqual([correct]));
});

describe("delegation", () => {
  const question = ofKind("constraints");
  const [whole = ""] = Facts.parse(question.facts).lookUps.map(({ task }) => task);
  const [first = "", second = ""] = whole.replace("country with ", "").split(", ");
  test("a dropped constraint, an unreadable task and a wrong value are wrong, the order is free", () => {
    const tasks = [
      whole,
      `country with ${second}, ${first}`,
      `country with ${first}`,
      "anything about it",
      `${whole}x`,
    ];
    expect(occasions("delegation", question, tasks.map(lookUp))).toEqual([true, true, false, false, false]);
  });
  test("asking for a fact is not an occasion", () => {
    expect(occasions("delegation", question, [lookUp("capital of Jordan")])).toEqual([]);
  });
  test("in a longer chain an intermediate finding may be wrong, but not missing", () => {
    const longer = ofKind("hop3");
    const [, link = ""] = Facts.parse(longer.facts).lookUps.map(({ task }) => task);
    const [, rest = ""] = /^country with borders [^,]+, (.*)$/.exec(link) ?? expect.fail();
    const tasks = [`country with borders Nowhere, ${rest}`, `country with ${rest}`, "country with borders Nowhere"];
    expect(occasions("delegation", longer, tasks.map(lookUp))).toEqual([true, false, false]);
  });
});
