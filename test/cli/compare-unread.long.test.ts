/** @file `mgrpo compare` refuses a setting that none of its runs would read; a comparison that has begun with one continues. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { chdirToProject, parsedLines, RELAY, relaySettings } from "./command-line.ts";
import { printed } from "./printed.ts";

const TIMEOUT = 480_000;
const folder = chdirToProject();

const TOKENS = ["--set", "algorithm.constantTokens=100"];
async function compared(name: string, ...more: string[]): Promise<string[]> {
  const size = ["--arms", "mgrpo", "--seeds", "1", "--jobs", "2", "--steps", "1"];
  const text = await printed("compare", RELAY, ...size, "--name", name, ...relaySettings(), ...more);
  return parsedLines(text).flatMap(({ kind, run }) => (kind === "finished" ? [String(run)] : []));
}

test("a setting that no run would read is refused; one that a single run reads is accepted", {
  timeout: TIMEOUT,
}, async () => {
  await expect(compared("c", ...TOKENS)).rejects.toThrow(
    /^algorithm\.constantTokens: does nothing under aggregation trajectory-mean/,
  );
  const swept = await compared("c", ...TOKENS, "--vary", "algorithm.aggregation=constant");
  expect(swept).toEqual(["c-mgrpo-seed1", "c-mgrpo-aggregation-constant-seed1"]);
});

test("a comparison that has begun with such a setting continues", { timeout: TIMEOUT }, async () => {
  const run = "old-mgrpo-seed1";
  mkdirSync(join(folder, "runs", run), { recursive: true });
  writeFileSync(join(folder, "runs", run, "origin.json"), JSON.stringify({ commit: "another", machine: "another" }));
  expect(await compared("old", ...TOKENS)).toEqual([run]);
});
