/** @file The last lines of a run on a terminal. */
import { stripVTControlCharacters } from "node:util";
import { afterEach, expect, test, vi } from "vitest";
import { runFolder } from "../../cli/local/run-folder.ts";
import { buildReport } from "../../cli/run-report.ts";
import { printSummary } from "../../cli/train/run-summary.ts";
import { config, scoreOf } from "./records.ts";

const wasTerminal = process.stdout.isTTY;
afterEach(() => {
  process.stdout.isTTY = wasTerminal;
  vi.restoreAllMocks();
});

test("each score names its suite, so that a case study's scores on two suites can be told apart", () => {
  const lines: string[] = [];
  vi.spyOn(console, "log").mockImplementation((text = "") => void lines.push(stripVTControlCharacters(text)));
  process.stdout.isTTY = true;
  const tally = (correct: number) => ({ n: 9, correct, interval: { low: 0, high: 1 } });
  const study = {
    study: "tool choice",
    expected: "calculates",
    temperature: 1,
    before: tally(3),
    after: tally(6),
  };
  const ends = [0, 1].map((team) => ({
    team,
    suite: "test",
    temperature: 1,
    closedBook: false,
    ...scoreOf(8, 3 + team),
  }));
  const report = buildReport({
    config: { ...config, evaluation: { ...config.evaluation, suites: [] } },
    evaluations: ends,
    gains: [{ suite: "test", temperature: 1, gain: 0.125, interval: { low: -0.25, high: 0.5 }, kinds: {} }],
    caseStudies: ["test", "development"].map((suite) => ({ ...study, suite })),
    perStep: [],
    writes: { bytes: 0, requests: 0, units: 0 },
    scoringSeconds: 0,
    totalSeconds: 1,
    agents: {},
  });
  printSummary({ ...report, steps: 1 }, runFolder("first"));
  const text = lines.join("\n");
  expect(text).toMatch(/held-out .*4 of 8, test$/m);
  expect(text).toMatch(/gain {2,}\+12\.5 points \[−25\.0, \+50\.0\] +test$/m);
  expect(text).toMatch(/tool choice .*6 of 9, test$/m);
  expect(text).toMatch(/tool choice .*6 of 9, development$/m);
});
