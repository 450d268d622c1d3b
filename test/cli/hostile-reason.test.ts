/** @file The reason of a halted run may quote a model or a web page: its control characters do not reach the terminal. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { printed } from "./printed.ts";
import { config } from "./records.ts";

const { isTTY } = process.stdout;
const home = process.cwd();
const folder = mkdtempSync(join(tmpdir(), "mgrpo-reason-"));

afterEach(() => {
  process.stdout.isTTY = isTTY;
  process.chdir(home);
  rmSync(folder, { recursive: true });
});

test("`mgrpo runs` prints a hostile reason as plain text", async () => {
  const run = join(folder, "runs", config.run);
  mkdirSync(run, { recursive: true });
  const status = {
    ...{ run: config.run, recipe: config.recipe, arm: config.arm, seed: config.seed, steps: config.steps, step: 1 },
    ...{ state: "halted", reason: "judge said \u001b]0;owned\u0007\u009b2J\u001b[1A\rfine", pid: 0, environment: {} },
    ...{
      seconds: 1,
      scoringSeconds: 0,
      writes: { requests: 0, bytes: 0, units: 0 },
      heldOut: { before: null, after: null },
    },
  };
  writeFileSync(join(run, "config.json"), JSON.stringify(config));
  writeFileSync(join(run, "status.json"), JSON.stringify(status));
  process.chdir(folder);
  process.stdout.isTTY = true;
  const text = await printed("runs");
  expect(text).toContain("judge said  ]0;owned 2J [1A fine");
  for (const control of ["\u0007", "\u009b", "\r", "\u001b]", "\u001b[1A"]) expect(text).not.toContain(control);
});
