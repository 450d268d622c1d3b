/**
 * @file The example apps on the OpenAI Agents SDK and LangGraph train two steps each. ai-sdk-parity.long.test.ts trains
 * the one on the AI SDK, and python-team.ts, which is not part of CI, the one in Python.
 */
import { join } from "node:path";
import { expect, test } from "vitest";
import { RunReport } from "../../cli/run-report.ts";
import { chdirToProject, mgrpo, parsedLines, readReport } from "../cli/command-line.ts";

const folder = chdirToProject();
const ROOT = join(import.meta.dirname, "../..");
const SMALL = [
  "--steps",
  "2",
  "--set",
  "questionsPerStep=2",
  "--set",
  "rolloutsPerQuestion=4",
  "--set",
  "evaluation.suites=[]",
];

test.each(["openai-agents-team", "langgraph-team"])("%s trains two steps", { timeout: 240_000 }, async (name) => {
  const { code, stdout, stderr } = await mgrpo(folder, "train", join(ROOT, "examples", name), "--run", name, ...SMALL);
  expect(stderr).toBe("");
  expect(code).toBe(0);
  const steps = parsedLines(stdout).filter(({ kind }) => kind === "step");
  expect(steps).toHaveLength(2);
  for (const step of steps) expect(step).toMatchObject({ rollouts: 8, excluded: 0 });
  const { agents } = RunReport.parse(readReport(folder, name));
  for (const agent of ["main", "searcher"]) expect(agents[agent]?.version).toBe(2);
});
