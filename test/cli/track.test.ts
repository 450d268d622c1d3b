/** @file `mgrpo track` of a run whose steps were closed elsewhere. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { expiryOf } from "../../core/training/retention.ts";
import { parsedLines, workHere } from "./command-line.ts";
import { printed } from "./printed.ts";
import { recordRun } from "./recorded-run.ts";
import { config, groups } from "./records.ts";

const folder = workHere();

test("a step's line has the time at which its last rollout was scored, not that of the command", async () => {
  // Store times of 2023; the second group is the last to be complete.
  const scored = [1_700_000_060_000, 1_700_000_100_000];
  const timed = groups.map((group, i) => ({ ...group, expiresAt: expiryOf(scored[i] ?? 0) }));
  await recordRun(folder, { groups: timed });
  const times = async () => {
    await printed("track", config.run, "--to", "tensorboard");
    const lines = parsedLines(readFileSync(join("runs", config.run, "metrics.jsonl"), "utf8"));
    return lines.filter(({ source }) => source === "step").map(({ step, time }) => [step, time]);
  };
  expect(await times()).toEqual([[1, 1_700_000_100_000]]);
  expect(await times()).toEqual([[1, 1_700_000_100_000]]);
});
