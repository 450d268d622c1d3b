/** @file What identifies the code and questions of a run in a user's project: hashes of them, not the commit of the project. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { provenanceDifferences, provenanceOf, sourceVersion } from "../../cli/compare/provenance.ts";
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

test("runs of a recipe whose code has changed are foreign; what commands write beside it does not count", () => {
  const recipe = join(project, "team");
  mkdirSync(recipe);
  const write = (name: string, text: string) => writeFileSync(join(recipe, name), text);
  write("recipe.ts", "export const recipe = {};");
  write("rewards.ts", "export const correct = 1;");
  mkdirSync(join(recipe, "tools/models"), { recursive: true });
  write("tools/models/page.ts", "export const lines = 1;");
  const made = () => provenanceOf({ ...config, recipe }, {});
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
  expect(provenanceOf(config, {})).not.toHaveProperty("recipe");
});

test("runs on other training questions are foreign, although the path of their file is the same", () => {
  const train = join(project, "train.jsonl");
  const made = (questions: { train: string; heldOut?: string }) => provenanceOf({ ...config, questions }, {});
  const missing = made({ train });
  expect(missing.config).toMatchObject({ questions: { train } });
  writeFileSync(train, '{"id": "a"}\n');
  const before = made({ train, heldOut: "recipe" });
  const copy = join(project, "copy.jsonl");
  writeFileSync(copy, '{"id": "a"}\n');
  expect(provenanceDifferences(made({ train: copy, heldOut: "recipe" }), before)).toEqual([]);
  writeFileSync(train, '{"id": "b"}\n');
  expect(provenanceDifferences(made({ train, heldOut: "recipe" }), before)).toEqual([
    expect.stringMatching(/^config\.questions\.train: "[0-9a-f]{64}" \(stored\), "[0-9a-f]{64}" \(requested\)$/),
  ]);
});

// Windows lets only privileged users create symbolic links to files.
test.skipIf(process.platform === "win32")("a symbolic link in a recipe counts as the file that it points to", () => {
  const recipe = join(project, "linked");
  const shared = join(project, "shared.ts");
  mkdirSync(recipe);
  writeFileSync(join(recipe, "recipe.ts"), "export const recipe = {};");
  writeFileSync(shared, "export const correct = 1;");
  symlinkSync(shared, join(recipe, "rewards.ts"));
  symlinkSync(join(project, "nowhere.ts"), join(recipe, "tools.ts"));
  const made = () => provenanceOf({ ...config, recipe }, {});
  const before = made();
  expect(provenanceDifferences(made(), before)).toEqual([]);
  writeFileSync(shared, "export const correct = 0;");
  expect(provenanceDifferences(made(), before)).toEqual([expect.stringMatching(/^recipe: /)]);
});
