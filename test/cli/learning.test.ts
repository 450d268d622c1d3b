/**
 * @file A small seeded run of the default recipe on the real engine, against the curve that it had when it was recorded: a change that
 * touches a number anywhere between question and gradient shows here. Another curve on purpose: record it with MGRPO_RECORD=1, and say why.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { mgrpo, readReport, workplaceOfFile } from "./command-line.ts";

const RECORDED = resolve(import.meta.dirname, "../fixtures/learning-curve.json");
const SETTINGS = ["questionsPerStep=4", "rolloutsPerQuestion=4", "evaluation.suites=[]"];

const folder = workplaceOfFile();

test("rewards, calls and sampled tokens of six steps are those that were recorded", { timeout: 120_000 }, async () => {
  const settings = SETTINGS.flatMap((setting) => ["--set", setting]);
  const { code, stderr } = await mgrpo(folder, "train", "atlas", "--steps", "6", "--run", "learning", ...settings);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const { perStep } = readReport(folder, "learning") as { perStep: Record<string, unknown>[] };
  const curve = perStep.map(({ step, correct, reward, calls, sampledTokens }) => ({
    ...{ step, correct, reward, calls, sampledTokens },
  }));
  if (process.env["MGRPO_RECORD"]) writeFileSync(RECORDED, `${JSON.stringify(curve, null, 1)}\n`);
  expect(curve).toEqual(JSON.parse(readFileSync(RECORDED, "utf8")));
});
