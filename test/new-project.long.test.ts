/**
 * @file What a user does first, with npm's registry: `npx create-mgrpo` in a new folder, `npm install` of the packed mgrpo, `npm test` and
 * `npm start`. test/package.long.test.ts checks the archives without a registry; test/recipes/documented.long.test.ts trains the recipe for
 * all of its steps.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createProject, npm, packArchives } from "../bench/new-project.ts";
import { readReport } from "./cli/command-line.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-new-project-"));
let project: string;
beforeAll(() => {
  project = createProject(folder, packArchives(folder));
  // With npm's own cache. Fails if a package needs a newer Node.js.
  npm(project, "install", "--prefer-offline", "--engine-strict");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a new project compiles and passes its own test", () => {
  npm(project, "test");
});

test("npm start makes the base models and trains both: the team answers more held-out questions of the project", () => {
  npm(project, "start", "--", "--run", "first", "--steps", "3");
  const { agents, gains, perStep } = readReport(project, "first");
  expect(perStep.map(({ rollouts }: { rollouts: number }) => rollouts)).toEqual([128, 128, 128]);
  expect([agents.main.version, agents.searcher.version]).toEqual([3, 3]);
  const [{ suite, interval, kinds }] = gains;
  expect(suite).toBe("held-out");
  // The kinds of team/questions.ts.
  expect([kinds.own.after.n, kinds.friend.after.n]).toEqual([48, 48]);
  expect(interval.low).toBeGreaterThan(0);
});
