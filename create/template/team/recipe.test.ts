/** @file The world, the questions, the rewards and the demonstrations agree with each other. Run by `npm test`; no model is involved. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Conversation, type Question, resolveConfig } from "mgrpo/recipe";
import { plannerDemonstrations, searcherDemonstrations } from "./demonstrations.ts";
import { answerTo, questionSet, villageAsked } from "./questions.ts";
import { recipe } from "./recipe.ts";
import { rewards } from "./rewards.ts";
import { lookedUp } from "./tools.ts";
import { villageOf } from "./world.ts";

const question: Question = {
  id: "village-7",
  kind: "friend",
  level: 2,
  prompt: "What is the pet of the friend of Ada?",
  answer: answerTo({ village: 7, name: "Ada", field: "pet", level: 2 }),
  facts: { village: 7 },
};

/** A searcher's conversation: one look-up, then the report. */
function searched(prompt: string, name: string, answer: string): Conversation {
  const lookUp = {
    text: "",
    calls: [{ name: "lookup", arguments: { name } }],
    responses: [{ name: "lookup", text: lookedUp(7, name) }],
  };
  const report = { text: `<answer>${answer}</answer>`, calls: [], responses: [] };
  return { prompt, turns: [lookUp, report], stop: "answered", answer, fault: null };
}

test("the config is complete", () => {
  const config = resolveConfig(recipe, { run: "test", seed: 1, arm: "mgrpo" });
  assert.deepEqual(Object.keys(config.agents), ["main", "searcher"]);
});

test("no held-out question is trained on", () => {
  const { train, heldOut } = questionSet(1);
  const ids = new Set(train.map(({ id }) => id));
  assert.deepEqual(
    heldOut.filter(({ id }) => ids.has(id)),
    [],
  );
});

test("every seed is scored on the same held-out questions", () => {
  assert.deepEqual(questionSet(2).heldOut, questionSet(1).heldOut);
});

test("a question of your own is about a village", () => {
  const asked = recipe.ask?.("What is the pet of Ada?") ?? assert.fail("the recipe has no ask");
  assert.equal(villageAsked(asked), 7);
});

test("the answer to a level 2 question is about the friend", () => {
  const friend = villageOf(7).get("Ada")?.friend ?? "";
  assert.equal(question.answer, villageOf(7).get(friend)?.pet);
});

test("the expert's score is 0.4 for looking up the correct person plus 0.6 for reporting the correct field", async () => {
  const pet = villageOf(7).get("Ada")?.pet ?? "";
  assert.equal(await rewards.expert(question, "searcher", searched("pet of Ada", "Ada", pet)), 1);
  assert.equal(await rewards.expert(question, "searcher", searched("pet of Ada", "Ada", "nothing")), 0.4);
  assert.equal(await rewards.expert(question, "searcher", searched("pet of Ada", "Ben", pet)), 0.6);
  assert.equal(await rewards.expert(question, "searcher", searched("no task", "Ada", pet)), 0);
});

test("demonstrations end with an answer", () => {
  for (const demonstrations of [plannerDemonstrations(), searcherDemonstrations()]) {
    for (let i = 0; i < 100; i++) {
      const { turns } = demonstrations.next().value ?? assert.fail("demonstrations end");
      assert.match(turns.at(-1)?.text ?? "", /^<answer>[\w ]+<\/answer>$/);
    }
  }
});
