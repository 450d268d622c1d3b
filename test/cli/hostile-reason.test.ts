/**
 * @file A run's halt reason may quote a model or a web page, and a folder may have any name: their control characters and bidirectional
 * overrides do not reach the terminal.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
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
const HOSTILE = "judge said \u001b]0;owned\u0007\u009b2J\u001b[1A\rfine\u202egnp.\u2067exe\u2069\u202c \u0645\u200f";

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
  expect(text).toContain("judge said  ]0;owned 2J [1A fine gnp. exe");
  expect(text).toContain("\u0645\u200f");
  for (const control of ["\u0007", "\u009b", "\r", "\u001b]", "\u001b[1A"]) expect(text).not.toContain(control);
  expect(text).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
}

test.each([
  ["runs", ["runs"]],
  ["show", ["show", config.run]],
])("`mgrpo %s` prints a hostile reason as plain text", async (_, args) => expectPlain(await printed(...args)));

test("a command that fails because the run is halted prints a hostile reason as plain text", () => {
  expectPlain(described(new MgrpoError("run-halted", `run 'tiny' halted: ${HOSTILE}`)));
});

test("a folder of runs/ with a hostile name is listed as plain text", async () => {
  mkdirSync(join(folder, "runs", HOSTILE));
  writeFileSync(join(folder, "runs", HOSTILE, "config.json"), "{}");
  expectPlain(await printed("runs"));
});
