/**
 * @file `mgrpo eval <run>` gives exactly the scores that the run itself reported. With another seed, or another `evaluation.firstTeam`, sampled
 * scores can differ.
 */
import { expect, test, vi } from "vitest";
import { RunReport } from "../../cli/run-report.ts";
import { chdirToProject, mgrpo, readReport, trainRelay } from "./command-line.ts";
import { printedJson } from "./printed.ts";

const TIMEOUT = 480_000;
const folder = chdirToProject();

test("the run's own suites get the scores of its report; another seed is pointed out", {
  timeout: TIMEOUT,
}, async () => {
  const suites = [
    { name: "sampled", runs: 8 },
    { name: "greedy", temperature: 0 },
  ];
  const setting = `evaluation.suites=${JSON.stringify(suites)}`;
  expect(await mgrpo(folder, ...trainRelay("own", "--steps", "2", "--set", setting))).toMatchObject({ code: 0 });
  const { evaluations } = RunReport.parse(readReport(folder, "own"));
  const scores = (list: readonly object[]) =>
    list.map((one) => ("suite" in one && "runs" in one ? { suite: one.suite, runs: one.runs } : one));
  const bySuite = (list: object[]) => list.sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));
  const errors = vi.spyOn(console, "error").mockImplementation(() => {});

  const reported = bySuite(scores(evaluations.filter(({ team }) => team === 2)));
  expect(bySuite(scores(await printedJson("eval", "own")))).toEqual(reported);
  const [one] = await printedJson("eval", "own", "--suite", "sampled");
  expect(reported).toContainEqual({ suite: one?.["suite"], runs: one?.["runs"] });
  expect(errors).not.toHaveBeenCalled();
  const otherStreams = await printedJson("eval", "own", "--set", "evaluation.firstTeam=0");
  expect(bySuite(scores(otherStreams))).not.toEqual(reported);

  await printedJson("eval", "own", "--seed", "9");
  expect(errors.mock.calls.flat()).toEqual([
    "sampled scores can differ from the report of run 'own': --seed 9 is not the run's seed 1",
  ]);
  errors.mockRestore();
});
