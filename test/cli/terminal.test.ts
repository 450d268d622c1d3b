/** @file The live table and its parts. */
import { expect, test } from "vitest";
import { summarizeStep } from "../../cli/step-summary.ts";
import { accuracy, columnsOf, duration, padded } from "../../cli/terminal/columns.ts";
import { openDisplay } from "../../cli/terminal/display.ts";
import { config, groups, manifests, scoreOf, step } from "./records.ts";

const summary = summarizeStep(config, step, groups, new Map(manifests.map((one) => [one.agent, one])), 2);
const values = { summary, heldOut: 0.29, secondsLeft: 133 };
const cells = (width: number) =>
  Object.fromEntries(columnsOf(config, width).map((column) => [column.title, column.cell(values)]));

test("a wide terminal shows everything that is asked of the line", () => {
  expect(cells(200)).toEqual({
    step: "1/1",
    main: "0.700",
    searcher: "0.800",
    right: "67%",
    "held-out": "29%",
    "tok/s": "30",
    "calls 0·1·2…": "1·1·1",
    "drop/dup": "1/0",
    flat: "1/2",
    clip: "0%",
    kl: "2.0e-7",
    left: "2m13s",
  });
});

test("no row is wider than the terminal, and what matters most stays", () => {
  for (const width of [60, 80, 100, 120]) {
    const columns = columnsOf(config, width);
    expect(columns.map((column) => padded(column.cell(values), column)).join("").length).toBeLessThanOrEqual(width);
    expect(columns.map(({ title }) => title)).toEqual(expect.arrayContaining(["step", "main", "searcher", "held-out"]));
  }
});

test("durations", () => {
  expect([0, 59.4, 61, 3725].map(duration)).toEqual(["0s", "59s", "1m01s", "1h02m"]);
});

test("an accuracy with its interval, and its runs if they are several", () => {
  const interval = { low: 0.7512, high: 0.806 };
  const runs = [260, 262, 264].map((correct) => ({ n: 336, correct }));
  expect(accuracy({ n: 1008, correct: 786, runs, interval })).toBe("78.0% [75.1, 80.6] over 3 runs");
  expect(accuracy(scoreOf(10, 8))).toBe("80.0% [49.0, 94.3]");
  expect(accuracy(scoreOf(0, 0))).toBe("- [0.0, 100.0]");
});

test("where there is no terminal, each event is one line of JSON, and progress is no news", () => {
  const lines: string[] = [];
  const output = { isTTY: false, write: (line: string) => lines.push(line) > 0 } as unknown as NodeJS.WriteStream;
  const display = openDisplay(config, [], output);
  display.event({ kind: "waiting", step: 0, for: "rollouts 3/4" });
  display.event({ kind: "waiting", step: 0, for: "waiting for: searcher/rollout" });
  display.event({ kind: "waiting", step: 0, for: "waiting for: searcher/rollout" });
  display.event({ kind: "step", summary });
  expect(lines.map((line) => JSON.parse(line).kind)).toEqual(["waiting", "step"]);
  expect(lines.every((line) => line.endsWith("\n"))).toBe(true);
});
