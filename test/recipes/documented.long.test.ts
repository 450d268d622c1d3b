/**
 * @file The recipe that docs/recipes.md prints (documented.test.ts compares them) learns as it is: the built command makes its base models, trains the
 * team for all of its steps, and the accuracy on held-out questions rises.
 */
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { mgrpo, projectOfFile, readReport } from "../cli/command-line.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const project = projectOfFile();

test("the recipe of create/template, unmodified, raises held-out accuracy", async () => {
  cpSync(join(ROOT, "create/template/team"), join(project, "team"), { recursive: true });
  writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module" }));
  mkdirSync(join(project, "node_modules"));
  symlinkSync(ROOT, join(project, "node_modules/mgrpo"), "junction");
  symlinkSync(join(ROOT, "node_modules/zod"), join(project, "node_modules/zod"), "junction");
  const { code, stderr } = await mgrpo(project, "train", "team", "--run", "team");
  expect(code, stderr).toBe(0);
  const { heldOut } = readReport(project, "team");
  expect([heldOut.before.n, heldOut.after.n]).toEqual([96, 96]);
  expect(heldOut.after.correct - heldOut.before.correct).toBeGreaterThan(24);
});
