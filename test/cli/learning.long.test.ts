/**
 * @file A small seeded run of the default recipe on the real engine, compared with its recorded curve. A change anywhere from question to
 * gradient shows up here if it alters what is sampled or rewarded. If the curve should change, record it with MGRPO_RECORD=1 and say why.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { mgrpo, projectOfFile, readReport } from "./command-line.ts";

const RECORDED = resolve(import.meta.dirname, "../fixtures/learning-curve.json");
const SETTINGS = ["questionsPerStep=4", "rolloutsPerQuestion=4", "evaluation.suites=[]"];

const folder = projectOfFile();

test("rewards, correctness, calls of sub-agents and sampled tokens of six steps match the recorded ones", async () => {
  const settings = SETTINGS.flatMap((setting) => ["--set", setting]);
  const { code, stderr } = await mgrpo(folder, "train", "atlas", "--steps", "6", "--run", "learning", ...settings);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const { perStep } = readReport(folder, "learning") as { perStep: Record<string, unknown>[] };
  const curve = perStep.map(({ step, correct, reward, calls, sampledTokens }) => ({
    step,
    correct,
    reward,
    calls,
    sampledTokens,
  }));
  if (process.env["MGRPO_RECORD"]) writeFileSync(RECORDED, `${JSON.stringify(curve, null, 1)}\n`);
  expect(curve).toEqual(JSON.parse(readFileSync(RECORDED, "utf8")));
});
