/**
 * @file The questions of a run: an id identifies one question, and no held-out question, of the recipe or of a file, is trained on. The questions are
 * frozen, and a fault in a recipe's questions is refused.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { questionsOf } from "../../../adapters/benchmarks/load.ts";
import type { Question } from "../../../core/contracts/question.ts";
import { openRecipe } from "../../../recipes/registry.ts";
import { heldOutQuestions, trainQuestions } from "../../fixtures/relay/questions.ts";
import { recipe as relay } from "../../fixtures/relay/recipe.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-questions-"));
afterAll(() => rmSync(folder, { recursive: true }));

const fileOf = (name: string, ...rows: object[]) => {
  const file = join(folder, name);
  writeFileSync(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return file;
};
const sources = (questions?: object) => ({ seed: 1, questions, evaluation: { suites: [] }, agents: {} }) as never;

test("a file's training questions can be combined with the recipe's held-out ones; a question that the recipe holds out is refused, with its facts or without any", async () => {
  const [held = expect.fail()] = heldOutQuestions;
  const row = { id: "a", prompt: held.prompt, answer: held.answer };
  const withFacts = (facts: object) =>
    questionsOf(relay, sources({ train: fileOf("train.jsonl", { ...row, ...facts }), heldOut: "recipe" }));
  const { train: read, heldOut } = await withFacts({ facts: { world: 3 } });
  expect(read.map(({ id }) => id)).toEqual(["jsonl:a"]);
  expect(heldOut).toEqual(heldOutQuestions);
  for (const facts of [{ facts: held.facts }, {}])
    await expect(withFacts(facts)).rejects.toThrow(/its question 'a' is a held-out question of the recipe/);
});

test("own files: a held-out question is refused for training even under another id, and an id identifies one question", async () => {
  const load = (train: object, heldOut: object) =>
    questionsOf(relay, sources({ train: fileOf("t.jsonl", train), heldOut: fileOf("h.jsonl", heldOut) }));
  const row = { id: "a", prompt: "Where?", answer: "Here" };
  const other = { ...row, id: "b" };
  for (const facts of [{}, { facts: { place: 1 } }])
    await expect(load(row, { ...other, ...facts })).rejects.toThrow(
      /t\.jsonl: its question 'a' is a held-out question in .*h\.jsonl: held-out questions must not be trained on$/,
    );
  await expect(load({ ...row, facts: null }, other)).rejects.toThrow(/its question 'a' is a held-out question in/);
  expect((await load({ ...row, facts: { place: 2 } }, { ...other, facts: { place: 1 } })).heldOut).toHaveLength(1);
  await expect(load(row, { ...row, answer: "There" })).rejects.toThrow(
    /t\.jsonl and .*h\.jsonl have different questions with the id 'a': rename one/,
  );
});

test("a held-out question is refused for training even with another encoding of its accents, or space around it", async () => {
  const row = { answer: "Here", facts: { cafz: "Here", café: "Café" } };
  const held = fileOf("accents.jsonl", { ...row, id: "h", prompt: "Where is the café?" });
  const decomposed = JSON.parse(JSON.stringify(row).normalize("NFD"));
  for (const copy of [decomposed, { answer: "Here" }]) {
    const train = fileOf("copied.jsonl", { ...copy, id: "t", prompt: " Where is the cafe\u0301?\r\n" });
    await expect(questionsOf(relay, sources({ train, heldOut: held }))).rejects.toThrow(
      /copied\.jsonl: its question 't' is a held-out question in/,
    );
  }
});

test("a recipe's ids take at most 80 bytes in UTF-8; a file accepts ids of that length, so that mined questions keep theirs", async () => {
  const [first = expect.fail()] = trainQuestions;
  const named = (id: string) => ({ name: "mine", questions: () => ({ train: [{ ...first, id }], heldOut: [] }) });
  const [longest, longer] = ["q".repeat(80), "q".repeat(81)];
  expect((await questionsOf(named(longest), sources())).train.map(({ id }) => id)).toEqual([longest]);
  for (const id of [longer, "問".repeat(27)]) {
    await expect(questionsOf(named(id), sources())).rejects.toThrow(
      /'mine': the id '(q|問)+' takes more than 80 bytes in UTF-8: shorten it$/,
    );
  }
  const file = fileOf("mined.jsonl", { id: longest, prompt: "Where?", answer: "Here" });
  const { train } = await questionsOf(relay, sources({ train: file }));
  expect(train.map(({ id }) => id)).toEqual([`jsonl:${longest}`]);
});

test("a question without a reference answer, which a recipe may have, can be read from a file too, as `mine` writes it", async () => {
  const [first = expect.fail()] = trainQuestions;
  const own = { ...first, answer: "" };
  const recipe = { name: "mine", questions: () => ({ train: [own], heldOut: [] }) };
  const { train: ofRecipe } = await questionsOf(recipe, sources());
  const { train } = await questionsOf(recipe, sources({ train: fileOf("unanswered.jsonl", ...ofRecipe) }));
  expect(train).toEqual([{ ...own, id: `jsonl:${first.id}` }]);
  const row = { id: "a", prompt: "Where?" };
  await expect(questionsOf(recipe, sources({ train: fileOf("none.jsonl", row) }))).rejects.toThrow("it has no answer");
});

test("two different questions of a recipe with one id are refused; a repeated training question is not", async () => {
  const [first = expect.fail()] = trainQuestions;
  const recipe = (...train: Question[]) => ({ name: "mine", questions: () => ({ train, heldOut: heldOutQuestions }) });
  expect((await questionsOf(recipe(first, first), sources())).train).toHaveLength(2);
  await expect(questionsOf(recipe(first, { ...first, prompt: "Other?" }), sources())).rejects.toMatchObject({
    code: "recipe-invalid",
    message: `recipe 'mine': two different questions have the id '${first.id}': give each question its own id`,
  });
});

test("a tool or an app cannot change the questions, which all rollouts share; a recipe may change its own", async () => {
  const [first = expect.fail()] = trainQuestions;
  const names = ["Ada", "Ben"];
  const mine = { name: "mine", questions: () => ({ train: [{ ...first, facts: { names } }], heldOut: [] }) };
  const [question = expect.fail()] = (await questionsOf(mine, sources())).train;
  expect(() => (question.facts as { names: string[] }).names.pop()).toThrow(TypeError);
  expect(() => {
    question.answer = "";
  }).toThrow(TypeError);
  expect(names.pop()).toBe("Ben");
});

test("a recipe whose questions() returns a promise is refused as invalid", async () => {
  // An unhandled rejection would fail the test run.
  const late = () => Promise.reject(new Error("no file")) as never;
  await expect(questionsOf({ name: "mine", questions: late }, sources())).rejects.toMatchObject({
    code: "recipe-invalid",
    message: expect.stringMatching(/^recipe 'mine': questions\(\) returned a promise: read files with readFileSync/),
  });
});

test("a recipe's question whose facts contain themselves is refused, and so is one with facts that are not JSON", async () => {
  const [first = expect.fail()] = trainQuestions;
  const itself: Record<string, unknown> = {};
  itself["self"] = itself;
  const withFacts = (facts: unknown) =>
    questionsOf(
      { name: "mine", questions: () => ({ train: [{ ...first, facts } as Question], heldOut: [] }) },
      sources(),
    );
  await expect(withFacts(itself)).rejects.toMatchObject({
    code: "recipe-invalid",
    message: "recipe 'mine': the facts of a question contain themselves, or are nested too deeply",
  });
  await expect(withFacts({ hint: undefined })).rejects.toThrow(
    /^questions of recipe 'mine': train\.0\.facts: hint: Invalid input: expected string, received undefined/,
  );
});

test("a question in both of a recipe's sets is refused, and so is a different one with its id", async () => {
  const [first = expect.fail(), second = expect.fail()] = trainQuestions;
  const holdingOut = (question: Question) => ({
    name: "mine",
    questions: () => ({ train: [first, second], heldOut: [question] }),
  });
  await expect(questionsOf(holdingOut(second), sources())).rejects.toMatchObject({
    code: "recipe-invalid",
    message: `recipe 'mine': question '${second.id}' is trained on and held out: remove it from one of the two sets`,
  });
  await expect(questionsOf(holdingOut({ ...second, prompt: "Other?" }), sources())).rejects.toThrow(
    /two different questions have the id '.*': give each question its own id$/,
  );
});

test("a question that a recipe holds out twice is refused: it would count twice in each score", async () => {
  const [first = expect.fail(), second = expect.fail()] = trainQuestions;
  const twice = { name: "mine", questions: () => ({ train: [first, first], heldOut: [second, second] }) };
  await expect(questionsOf(twice, sources())).rejects.toMatchObject({
    code: "recipe-invalid",
    message: `recipe 'mine': question '${second.id}' is held out twice, and would count twice in each score: remove one of the two`,
  });
});

test.each(["atlas", "atlas-two-subs", "gazetteer", "tally", "deep-research"])(
  "%s: each id identifies one question",
  async (name) => {
    const recipe = await openRecipe(name);
    expect((await questionsOf(recipe, sources())).train.length).toBeGreaterThan(1);
  },
);

test("the error for a missing question file asks for a question file, not for a benchmark's data", async () => {
  const file = join(folder, "nowhere.jsonl");
  await expect(questionsOf(relay, sources({ train: file }))).rejects.toMatchObject({
    code: "benchmark-damaged",
    message: `${file}: no such file; name a question file by its path, absolute or relative to the working directory`,
  });
});
