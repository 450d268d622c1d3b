/** @file A closed-book suite reveals memorized answers: a team that was trained on held-out answers scores, and the base models do not. */
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { MODELS } from "../../recipes/atlas/bases.ts";
import { questionSet } from "../../recipes/atlas/questions/questions.ts";
import { mgrpo, parsedLines, projectOfFile } from "./command-line.ts";

const QUESTIONS = 8;
const EPOCHS = 40;

const folder = projectOfFile();

/** How many of the first held-out questions a team answers correctly when its tools return nothing. */
async function correctClosedBook(team: string): Promise<unknown> {
  const suites = [{ name: "closed-book", closedBook: true, questions: QUESTIONS }];
  const settings = ["--set", `evaluation.suites=${JSON.stringify(suites)}`];
  const { stdout, stderr } = await mgrpo(folder, "eval", team, "--recipe", "atlas", ...settings);
  const [result] = parsedLines(stdout);
  if (!result) throw new Error(stderr);
  return result["correct"];
}

test("closed book, a team that has memorized the answers gives at least half of them, and the base models none", {
  timeout: 300_000,
}, async () => {
  const heldOut = questionSet(1).heldOut.slice(0, QUESTIONS);
  const leaked = heldOut.map(({ prompt, answer }) => ({
    messages: [
      { role: "user", content: prompt },
      { role: "assistant", content: answer },
    ],
  }));
  writeFileSync(join(folder, "leaked.jsonl"), leaked.map((one) => JSON.stringify(one)).join("\n"));
  const sft = ["sft", "atlas", "--agent", "main", "--demonstrations", "leaked.jsonl", "--to", "memorized"];
  const training = ["--epochs", String(EPOCHS), "--held-out", "0", "--batch-tokens", "256", "--learning-rate", "2e-3"];
  expect(await mgrpo(folder, ...sft, ...training)).toMatchObject({ code: 0 });
  for (const team of ["memorized", "base"])
    cpSync(join(MODELS, "searcher"), join(folder, team, "searcher"), { recursive: true });
  cpSync(join(MODELS, "main"), join(folder, "base", "main"), { recursive: true });

  expect(await correctClosedBook("base")).toBe(0);
  expect(await correctClosedBook("memorized")).toBeGreaterThanOrEqual(QUESTIONS / 2);
});
