/** @file `mgrpo compare --tokens`: every run has the same token budget, so no run waits for one of the first arm. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Comparison } from "../../cli/compare/summary.ts";
import { chdirToProject, mgrpo, parsedLines, RELAY, relaySettings } from "./command-line.ts";

const folder = chdirToProject();
/** A step of the relay team samples about 1,000 tokens, so two reach it. */
const BUDGET = 1_500;

test("all runs start side by side, sample at least the budget, and end with the steps in flight", {
  timeout: 480_000,
}, async () => {
  const arms = ["--arms", "mgrpo,shuffled-advantages", "--seeds", "2", "--steps", "2", "--tokens", `${BUDGET}`];
  const { code, stdout, stderr } = await mgrpo(folder, "compare", RELAY, ...arms, "--jobs", "4", ...relaySettings());
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const events = parsedLines(stdout).map(({ kind, run }) => (kind === "started" ? run : kind));
  const seedBySeed = [1, 2].flatMap((seed) =>
    ["mgrpo", "shuffled-advantages"].map((arm) => `compare-${arm}-seed${seed}`),
  );
  expect(events).toEqual([...seedBySeed, ...seedBySeed.map(() => "finished"), "note"]);

  const summary = Comparison.parse(JSON.parse(readFileSync(join(folder, "results/compare/summary.json"), "utf8")));
  const runs = summary.arms.flatMap((arm) => arm.runs);
  expect(runs).toHaveLength(seedBySeed.length);
  for (const { steps, sampledTokens, short } of runs) {
    expect(short).toBe(false);
    expect(sampledTokens).toBeGreaterThanOrEqual(BUDGET);
    expect(steps).toBeLessThanOrEqual(3);
  }
});
