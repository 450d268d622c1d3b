/** @file The reason of a halted run may quote a model or a web page: its control characters do not reach the terminal. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describe as described } from "../../cli/terminal/fail.ts";
import { MgrpoError } from "../../core/errors.ts";
import { printed } from "./printed.ts";
import { recordRun } from "./recorded-run.ts";
import { config } from "./records.ts";

const { isTTY } = process.stdout;
const home = process.cwd();
const folder = mkdtempSync(join(tmpdir(), "mgrpo-reason-"));
const HOSTILE = "judge said \u001b]0;owned\u0007\u009b2J\u001b[1A\rfine";

beforeAll(async () => {
  await recordRun(folder, { reason: HOSTILE });
  process.chdir(folder);
  process.stdout.isTTY = true;
});

afterAll(() => {
  process.stdout.isTTY = isTTY;
  process.chdir(home);
  rmSync(folder, { recursive: true });
});

function expectPlain(text: string): void {
  expect(text).toContain("judge said  ]0;owned 2J [1A fine");
  for (const control of ["\u0007", "\u009b", "\r", "\u001b]", "\u001b[1A"]) expect(text).not.toContain(control);
}

test.each([
  ["runs", ["runs"]],
  ["show", ["show", config.run]],
])("`mgrpo %s` prints a hostile reason as plain text", async (_, args) => expectPlain(await printed(...args)));

test("so does a command that the halted run makes fail", () => {
  expectPlain(described(new MgrpoError("run-halted", `run 'tiny' halted: ${HOSTILE}`)));
});
