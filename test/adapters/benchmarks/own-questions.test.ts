/** @file The questions of a run that trains on a file: beside held-out questions of the recipe, none of which it trains on. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { questionsOf } from "../../../adapters/benchmarks/load.ts";
import { heldOutQuestions } from "../../fixtures/relay/questions.ts";
import { recipe as relay } from "../../fixtures/relay/recipe.ts";

test("training questions of a file beside the recipe's held-out ones; one that the recipe holds out is refused", async () => {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-questions-"));
  const train = join(folder, "train.jsonl");
  const sources = { seed: 1, questions: { train, heldOut: "recipe" }, evaluation: { suites: [] }, agents: {} } as never;
  const [held = expect.fail()] = heldOutQuestions;
  const row = { id: "a", prompt: held.prompt, answer: held.answer };
  writeFileSync(train, JSON.stringify({ ...row, facts: { world: 3 } }));
  const { train: read, heldOut } = await questionsOf(relay, sources);
  expect(read.map(({ id }) => id)).toEqual(["jsonl:a"]);
  expect(heldOut).toEqual(heldOutQuestions);
  writeFileSync(train, JSON.stringify({ ...row, facts: held.facts }));
  await expect(questionsOf(relay, sources)).rejects.toThrow(/its question 'a' is a held-out question of the recipe/);
  rmSync(folder, { recursive: true });
});
