/** @file bench/sign-test on answers and on held-out.json: what it counts, and files that cannot be compared. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";

const BENCH = join(import.meta.dirname, "../../dist/bench/sign-test.js");
const folder = mkdtempSync(join(tmpdir(), "mgrpo-sign-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A run's held-out.json: the question at each index was answered correctly if `correct` has 1 there. */
function heldOut(name: string, suite: string, correct: readonly number[]): string {
  const path = join(folder, name);
  const questions = correct.map((one, i) => ({ question: `q${i}`, correct: one }));
  writeFileSync(path, JSON.stringify([{ suite, questions }]));
  return path;
}

const signTest = (...files: string[]) => promisify(execFile)(process.execPath, [BENCH, ...files]);

test("only questions that exactly one team answers correctly count toward p; files without a question in common are refused, not compared as equal", async () => {
  const one = heldOut("one.json", "test", [1, 1, 1, 1, 0]);
  const { stdout } = await signTest(one, heldOut("two.json", "test", [1, 0, 0, 0, 1]));
  // Of the four questions that count, one team has three and the other one: p = 2 (1 + 4) / 16.
  expect(JSON.parse(stdout)).toEqual({ bench: "sign-test", n: 5, correct: [4, 2], alone: [3, 1], p: 0.625 });
  const other = heldOut("other.json", "development", [1, 0]);
  await expect(signTest(one, other)).rejects.toMatchObject({
    stderr: expect.stringMatching(/^mgrpo: .*one\.json and .*other\.json have no question in common: .*\n$/),
  });
});
