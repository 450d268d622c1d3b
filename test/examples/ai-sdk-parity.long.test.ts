/** @file The AI SDK app trains the models of atlas to the same bytes as mgrpo's own rollout loop. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { RunReport } from "../../cli/run-report.ts";
import { chdirToProject, mgrpo, readReport } from "../cli/command-line.ts";

const folder = chdirToProject();
const ROOT = join(import.meta.dirname, "../..");
const SMALL = ["questionsPerStep=3", "rolloutsPerQuestion=6", "evaluation.suites=[]", "draws=tokens"];

async function trained(recipe: string) {
  const run = recipe.replace("/", "-");
  const set = SMALL.flatMap((setting) => ["--set", setting]);
  const { code, stderr } = await mgrpo(folder, "train", join(ROOT, recipe), "--run", run, "--steps", "3", ...set);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const { agents, perStep } = RunReport.parse(readReport(folder, run));
  const rewards = perStep.map(({ reward, calls }) => ({ reward, calls }));
  return { weights: Object.values(agents).map(({ sha256 }) => sha256), rewards };
}

test("the app and mgrpo's own rollout loop give the same rewards and weights", { timeout: 300_000 }, async () => {
  const native = await trained("recipes/atlas");
  expect(native.rewards.some(({ reward }) => (reward["main"] ?? 0) > 0)).toBe(true);
  expect(await trained("examples/ai-sdk-team")).toEqual(native);
});
