/** @file What identifies the code and questions of a run in a user's project: hashes of them, not the commit of the project. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { questionsOf } from "../../adapters/benchmarks/load.ts";
import { identifyQuestions, provenanceDifferences, provenanceOf, sourceVersion } from "../../cli/compare/provenance.ts";
import { IDENTIFIED } from "./compared-runs.ts";
import { config } from "./records.ts";

const project = mkdtempSync(join(tmpdir(), "mgrpo-provenance-"));
afterAll(() => rmSync(project, { recursive: true }));

test("an installed package has no commit, although the project around it has one", () => {
  const git = (...command: string[]) =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...command], { cwd: project, stdio: "ignore" });
  const installed = join(project, "node_modules/mgrpo/dist/cli/compare");
  mkdirSync(installed, { recursive: true });
  writeFileSync(join(project, ".gitignore"), "node_modules\n");
  git("init");
  git("add", "-A");
  git("commit", "-m", "a project");
  expect(sourceVersion(installed)).toBe("none: an installed package");
  expect(sourceVersion()).toMatch(/^[0-9a-f]{12}(-dirty)?$/);
});

test("runs of a recipe whose code has changed are mismatched; what commands write beside it does not count", () => {
  const recipe = join(project, "team");
  mkdirSync(recipe);
  const write = (name: string, text: string) => writeFileSync(join(recipe, name), text);
  write("recipe.ts", "export const recipe = {};");
  write("rewards.ts", "export const correct = 1;");
  mkdirSync(join(recipe, "tools/models"), { recursive: true });
  write("tools/models/page.ts", "export const lines = 1;");
  const made = () => provenanceOf({ ...config, recipe }, IDENTIFIED);
  const before = made();
  for (const output of ["models", "runs", ".git"]) {
    mkdirSync(join(recipe, output));
    write(`${output}/config.json`, "{}");
  }
  write("hard.jsonl", "{}");
  expect(provenanceDifferences(made(), before)).toEqual([]);
  write("rewards.ts", "export const correct = 0;");
  expect(provenanceDifferences(made(), before)).toEqual([
    expect.stringMatching(/^recipe: "[0-9a-f]{12}" \(stored\), "[0-9a-f]{12}"/),
  ]);
  const after = made();
  write("tools/models/page.ts", "export const lines = 2;");
  expect(provenanceDifferences(made(), after)).toHaveLength(1);
  const { recipe: _, ...older } = before;
  expect(provenanceDifferences(before, older)).toEqual([expect.stringMatching(/^recipe: "not recorded" \(stored\)/)]);
  expect(provenanceOf(config, IDENTIFIED)).not.toHaveProperty("recipe");
});

test("runs of a recipe whose data files have changed are mismatched", () => {
  const recipe = join(project, "informed");
  mkdirSync(join(recipe, "data"), { recursive: true });
  const files = ["places.csv", "data/questions.jsonl", "data/world.yaml"];
  for (const name of ["recipe.ts", ...files]) writeFileSync(join(recipe, name), "1");
  const made = () => provenanceOf({ ...config, recipe }, IDENTIFIED);
  for (const name of files) {
    const before = made();
    expect(provenanceDifferences(made(), before)).toEqual([]);
    writeFileSync(join(recipe, name), "2");
    expect(provenanceDifferences(made(), before)).toEqual([expect.stringMatching(/^recipe: /)]);
  }
});

test("runs on other questions are mismatched, wherever these come from: a file that the run names, or one that the recipe reads", async () => {
  const [train, data] = ["train.jsonl", "held-out.csv"].map((name) => join(project, name)) as [string, string];
  const questionsIn = (path: string) =>
    readFileSync(path, "utf8")
      .split(" ")
      .map((id) => ({ ...question, id }));
  const reader = {
    name: "reader",
    config: () => expect.fail(),
    questions: () => ({ train: [question], heldOut: questionsIn(data) }),
  };
  const line = (id: string) => JSON.stringify({ id, prompt: "Which?", answer: "b" });
  const made = async (questions?: { train: string; heldOut: string }) => {
    const asked = { ...config, ...(questions && { questions }) };
    return provenanceOf(asked, { ...IDENTIFIED, questions: identifyQuestions(await questionsOf(reader, asked)) });
  };
  const other = [expect.stringMatching(/^questions: "[0-9a-f]{64}" \(stored\), "[0-9a-f]{64}" \(requested\)$/)];
  writeFileSync(data, "c d");
  writeFileSync(train, line("a"));
  const [own, before] = [await made(), await made({ train, heldOut: "recipe" })];
  const copy = join(project, "copy.jsonl");
  writeFileSync(copy, line("a"));
  expect(provenanceDifferences(await made({ train: copy, heldOut: "recipe" }), before)).toEqual([]);
  writeFileSync(train, line("b"));
  expect(provenanceDifferences(await made({ train, heldOut: "recipe" }), before)).toEqual(other);
  expect(provenanceDifferences(await made(), own)).toEqual([]);
  writeFileSync(data, "c e");
  expect(provenanceDifferences(await made(), own)).toEqual(other);
  await expect(made({ train: join(project, "none.jsonl"), heldOut: "recipe" })).rejects.toMatchObject({
    code: "benchmark-damaged",
  });
});

test("runs evaluated on other questions of a suite's file are mismatched, although its path is the same", async () => {
  const data = join(project, "own.jsonl");
  const suite = { temperature: 1, closedBook: false, questions: 0, runs: 1, when: "every" } as const;
  const suites = [{ ...suite, name: "own", benchmark: "jsonl" as const, data }];
  const reader = { name: "reader", questions: () => ({ train: [question], heldOut: [] }) };
  const made = async () => {
    const asked = { ...config, evaluation: { ...config.evaluation, suites } };
    return provenanceOf(asked, { ...IDENTIFIED, questions: identifyQuestions(await questionsOf(reader, asked)) });
  };
  const write = (answer: string) => writeFileSync(data, JSON.stringify({ id: "a", prompt: "Which?", answer }));
  write("b");
  const before = await made();
  expect(provenanceDifferences(await made(), before)).toEqual([]);
  write("c");
  expect(provenanceDifferences(await made(), before)).toEqual([expect.stringMatching(/^questions: /)]);
});

const question = { id: "q", kind: "hop1", level: 1, prompt: "What?", answer: "a", facts: {} };

// Windows lets only privileged users create symbolic links to files.
test.skipIf(process.platform === "win32")("a symbolic link in a recipe counts as the file that it points to", () => {
  const recipe = join(project, "linked");
  const shared = join(project, "shared.ts");
  mkdirSync(recipe);
  writeFileSync(join(recipe, "recipe.ts"), "export const recipe = {};");
  writeFileSync(shared, "export const correct = 1;");
  symlinkSync(shared, join(recipe, "rewards.ts"));
  symlinkSync(join(project, "nowhere.ts"), join(recipe, "tools.ts"));
  const made = () => provenanceOf({ ...config, recipe }, IDENTIFIED);
  const before = made();
  expect(provenanceDifferences(made(), before)).toEqual([]);
  writeFileSync(shared, "export const correct = 0;");
  expect(provenanceDifferences(made(), before)).toEqual([expect.stringMatching(/^recipe: /)]);
});
