/** @file What `train` prints: the opening, the live table, and without a terminal one JSON object per line. */
import { EventEmitter } from "node:events";
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { openDisplay } from "../../cli/local/display.ts";
import { runFolder } from "../../cli/local/run-folder.ts";
import { accuracy, columnsOf, duration, padded } from "../../cli/terminal/columns.ts";
import { openLiveLine } from "../../cli/terminal/live.ts";
import { opening } from "../../cli/train/opening.ts";
import { AgentConfig } from "../../core/contracts/agent-config.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { summarizeStep } from "../../core/monitoring/step-summary.ts";
import { tinyCheckpoint } from "../engine/tiny.ts";
import { config, groups, manifests, scoreOf, step } from "./records.ts";

const summary = summarizeStep(config, step, groups, new Map(manifests.map((one) => [one.agent, one])), 2);
const values = { summary, heldOut: 0.29, secondsLeft: 133 };
const cells = (width: number) =>
  Object.fromEntries(columnsOf(config, width).map((column) => [column.title, column.cell(values)]));

test("a wide terminal shows every column", () => {
  expect(cells(200)).toEqual({
    step: "1/1",
    main: "0.700",
    searcher: "0.800",
    correct: "67%",
    "held-out": "29%",
    "tok/s": "30",
    "calls 0·1·2…": "1·1·1",
    "drop/dup": "1/0",
    "zero-var": "1/2",
    clip: "0%",
    kl: "2.0e-7",
    left: "2m13s",
  });
});

test("a step in which no agent learned shows no clip fraction and no KL", () => {
  const main = { loss: 0, gradientNorm: 0, entropy: 0.4, trajectories: 4, actionTokens: 60, tokens: 90 };
  const still = { ...values, summary: { ...summary, training: { main, searcher: null } } };
  const shown = columnsOf({ ...config, staleness: 1 }, 200).map((column) => [column.title, column.cell(still)]);
  expect(Object.fromEntries(shown)).toMatchObject({ clip: "-", kl: "-", "mask/cut": "-/-" });
});

test("with staleness, a wide terminal shows the largest age of the rollouts and the largest shares of masked and truncated tokens", () => {
  const main = {
    ...(summary.training["main"] ?? expect.fail()),
    kl: 0.002,
    maskedFraction: 0.03,
    truncatedFraction: 0,
  };
  const searcher = { ...main, kl: 0.001, maskedFraction: 0, truncatedFraction: 0.01 };
  const stale = { ...values, summary: { ...summary, training: { main, searcher }, age: { main: 0, searcher: 1 } } };
  const shown = columnsOf({ ...config, staleness: 1 }, 200).map((column) => [column.title, column.cell(stale)]);
  expect(Object.fromEntries(shown)).toMatchObject({ age: "1", "mask/cut": "3%/1%", kl: "2.0e-3" });
});

test("a step whose rollouts were all lost shows no share of correct ones, rather than 0%", () => {
  const lost = { ...values, summary: { ...summary, rollouts: 0, correct: 0, wellFormed: 0 } };
  expect(
    columnsOf(config, 200)
      .find(({ title }) => title === "correct")
      ?.cell(lost),
  ).toBe("-");
});

test("calls that have no room are left out whole: 112 rollouts never look like one", () => {
  const shown = (counts: readonly number[]) =>
    columnsOf(config, 200)
      .find(({ title }) => title === "calls 0·1·2…")
      ?.cell({ ...values, summary: { ...summary, calls: { searcher: [...counts] } } });
  expect(shown([100, 80, 34, 112])).toBe("100·80·34·…");
  expect(shown([10, 80, 34, 112])).toBe("10·80·34·112");
});

test("no row is wider than the terminal, and the main columns stay", () => {
  for (const width of [60, 80, 100, 120]) {
    const columns = columnsOf(config, width);
    expect(columns.map((column) => padded(column.cell(values), column)).join("").length).toBeLessThanOrEqual(width);
    expect(columns.map(({ title }) => title)).toEqual(expect.arrayContaining(["step", "main", "searcher", "held-out"]));
  }
});

test("a row is never wider than the terminal, however long its cells and the names of agents are", () => {
  const names = ["reader-of-long-pages", "calculator-and-converter", "translator"];
  const agents = Object.fromEntries(["main", ...names].map((name) => [name, config.agents["main"] ?? expect.fail()]));
  const wide = { ...summary, calls: Object.fromEntries(names.map((name) => [name, Array(16).fill(128)])) };
  for (const width of [60, 80, 160, 240]) {
    const columns = columnsOf({ ...config, agents }, width);
    const text = columns.map((column) => padded(column.cell({ ...values, summary: wide }), column)).join("");
    expect(text.length).toBeLessThanOrEqual(width);
  }
});

/** A terminal of this width. `written`: all that was written to it. `lines`: without colors. */
function terminal(columns: number) {
  let written = "";
  const write = (text: string) => {
    written += text;
    return true;
  };
  const output = Object.assign(new EventEmitter(), { isTTY: true, columns, rows: 50, write }) as unknown;
  const lines = () => stripVTControlCharacters(written).split("\n");
  return { output: output as NodeJS.WriteStream, written: () => written, lines };
}

const six = { ...config, steps: 6 };
const closed = (n: number) => Array.from({ length: n }, (_, i) => ({ ...summary, step: i, seconds: 2 }));

test("a resumed run shows the step that it is at, and the time left that its earlier steps predict", () => {
  const { output, lines } = terminal(80);
  openDisplay(six, closed(4), output).event({ kind: "waiting", step: 4, for: "rollouts 3/4" });
  expect(lines().join("\n")).toMatch(/4\/6 {2}4s left {2}rollouts 3\/4/);
});

test("no time is predicted from the first step alone, which includes the start of the workers", () => {
  const { output, lines } = terminal(120);
  const display = openDisplay(six, [], output);
  display.event({ kind: "step", summary: { ...summary, step: 0, seconds: 60 } });
  display.event({ kind: "waiting", step: 1, for: "rollouts 1/4" });
  expect(lines().join("\n")).not.toMatch(/\ds left|5m/);
  display.event({ kind: "step", summary: { ...summary, step: 1, seconds: 2 } });
  // Four more steps at the median of 60 s and 2 s, which is the lower one.
  expect(lines().join("\n")).toMatch(/2\/6 {2}8s left/);
});

test("the held-out column shows one suite, the one that runs during training", () => {
  const { output, lines } = terminal(120);
  const suites = [{ name: "test", when: "ends" }, { name: "development" }].map((one) => EvaluationSuite.parse(one));
  const display = openDisplay({ ...six, evaluation: { ...six.evaluation, suites } }, [], output);
  const settings = { team: 0, temperature: 1, closedBook: false };
  display.event({ kind: "evaluation", evaluation: { ...settings, suite: "development", ...scoreOf(100, 16) } });
  display.event({ kind: "evaluation", evaluation: { ...settings, suite: "test", ...scoreOf(100, 99) } });
  // An evaluation without a scored answer: the score before it stays.
  display.event({ kind: "evaluation", evaluation: { ...settings, suite: "development", ...scoreOf(0, 0) } });
  display.event({ kind: "step", summary: { ...summary, step: 0 } });
  const row = lines().findLast((line) => line.includes("1/6") && line.includes("0.700"));
  expect(row).toContain("16%");
});

test("the held-out column keeps the newest team's score when the evaluation of an older team ends later", () => {
  const { output, lines } = terminal(120);
  const display = openDisplay(six, closed(2), output);
  const settings = { suite: "sampled", temperature: 1, closedBook: false };
  display.event({ kind: "evaluation", evaluation: { ...settings, team: 2, ...scoreOf(100, 83) } });
  display.event({ kind: "evaluation", evaluation: { ...settings, team: 0, ...scoreOf(100, 16) } });
  display.event({ kind: "step", summary: { ...summary, step: 2 } });
  const row = lines().findLast((line) => line.includes("3/6") && line.includes("0.700"));
  expect(row).toContain("83%");
});

test("after the last step the live line names the current evaluation and shows no remaining time", () => {
  const { output, lines } = terminal(80);
  openDisplay(six, closed(6), output).event({
    kind: "waiting",
    step: 6,
    for: "evaluation 2 of 3: greedy after 0 steps",
  });
  const shown = lines().join("\n");
  expect(shown).toContain("6/6");
  expect(shown).toContain("evaluation 2 of 3: greedy after 0 steps");
  expect(shown).not.toContain("left");
});

test("control characters in what a run waits for, or in a server's name, never reach the terminal", () => {
  const { output, written } = terminal(200);
  const display = openDisplay(six, [], output);
  const hostile = "said\u009b2J\u0007 \u202eexe.\u2069";
  display.event({ kind: "waiting", step: 0, for: hostile });
  const optimizer = { server: hostile, followsEpsilon: true, followsBeta1: true, rise: 1, learningRate: 1e-4 };
  display.event({ kind: "optimizer", agent: "main", optimizer });
  expect(written().match(/said/g)?.length).toBeGreaterThan(1);
  for (const control of ["\u0007", "\u009b", "\u202e", "\u2069"]) expect(written()).not.toContain(control);
});

test.each([60, 80])("no line of the display is wider than a terminal of %i columns", (width) => {
  const { output, lines } = terminal(width);
  const display = openDisplay(six, closed(2), output);
  const evaluation = { team: 2, suite: "held-out-greedy", temperature: 0, closedBook: false, ...scoreOf(336, 204) };
  display.event({ kind: "waiting", step: 2, for: "waiting for: main/rollout, searcher/rollout, translator/rollout" });
  display.event({ kind: "step", summary: { ...summary, step: 2 } });
  display.event({ kind: "evaluation", evaluation });
  display.print("warning: the entropy of 'main' collapsed to 0.011 nats per token, from 0.11 in its first 10 steps");
  expect(Math.max(...lines().map((line) => line.length))).toBeLessThanOrEqual(width);
});

test("an evaluation's line says after how many steps it ran", () => {
  const { output, lines } = terminal(80);
  const display = openDisplay(six, [], output);
  const settings = { suite: "test", temperature: 1, closedBook: false, ...scoreOf(10, 8) };
  for (const team of [0, 1, 2]) display.event({ kind: "evaluation", evaluation: { ...settings, team } });
  const shown = lines().flatMap((line) => /test after .*:/.exec(line) ?? []);
  expect(shown).toEqual(["test after 0 steps:", "test after 1 step:", "test after 2 steps:"]);
});

test("a terminal that reports no width still shows each line", () => {
  const { output, lines } = terminal(0);
  const display = openDisplay(six, [], output);
  display.print("warning: the schedule is off");
  display.event({ kind: "step", summary: { ...summary, step: 0 } });
  expect(lines().filter((line) => line.includes("warning: the schedule is off"))).toHaveLength(1);
  expect(lines().filter((line) => line.includes("1/6") && line.includes("0.700"))).toHaveLength(1);
  display.event({ kind: "waiting", step: 1, for: "rollouts 1/4" });
  expect(lines().filter((line) => line.includes("rollouts 1/4"))).toHaveLength(1);
  const other = terminal(0);
  const line = openLiveLine(other.output);
  line.show(() => "2 of 3 files");
  line.close();
  expect(other.lines().filter((one) => one.includes("2 of 3 files"))).toHaveLength(1);
});

test("the opening is a few lines: the run, each agent's model with its size, and where the settings are", () => {
  const base = tinyCheckpoint();
  const agent = AgentConfig.parse({ model: "models/tiny", delegates: [] });
  const one = RunConfig.parse({ run: "first", recipe: "atlas", steps: 6, seed: 7, agents: { main: agent } });
  const text = stripVTControlCharacters(opening(one, runFolder("first"), new Map([["main", base]]), 80));
  expect(
    text
      .trim()
      .split("\n")
      .map((line) => line.trim()),
  ).toEqual([
    "first  atlas  mgrpo  seed 7  6 steps",
    expect.stringMatching(/^main {2}models\/tiny {2}[\d.]+K? parameters$/),
    "all settings: runs/first/config.json",
  ]);
  expect(opening(one, runFolder("first"), new Map(), 80, 4)).toContain("resumed after step 4 of 6");
  expect(opening({ ...one, steps: 1 }, runFolder("first"), new Map(), 80)).toMatch(/seed 7 {2}1 step$/m);
});

test("durations have at most two units", () => {
  expect([0, 59.4, 61, 3725].map(duration)).toEqual(["0s", "59s", "1m01s", "1h02m"]);
});

test("an accuracy is shown with its interval, and with the number of runs if there are several", () => {
  const interval = { low: 0.7512, high: 0.806 };
  const runs = [260, 262, 264].map((correct) => ({ n: 336, correct }));
  expect(accuracy({ n: 1008, correct: 786, runs, interval })).toBe("78.0% [75.1, 80.6] over 3 runs");
  expect(accuracy(scoreOf(10, 8))).toBe("80.0% [49.0, 94.3]");
  expect(accuracy(scoreOf(0, 0))).toBe("-");
});

test("an evaluation's sum of partial scores is rounded to hundredths", () => {
  const { output, lines } = terminal(120);
  const settings = { team: 1, suite: "reasoning-gym", temperature: 1, closedBook: false };
  const evaluation = (correct: number) => ({ ...settings, ...scoreOf(350, 0), n: 350, correct });
  for (const correct of [0.1 + 0.2, 311, 47.126])
    openDisplay(six, [], output).event({ kind: "evaluation", evaluation: evaluation(correct) });
  const shown = lines().flatMap((line) => /\S+ of 350/.exec(line) ?? []);
  expect(shown).toEqual(["0.3 of 350", "311 of 350", "47.13 of 350"]);
});

test("lost answers are shown below the score that lacks them", () => {
  const { output, lines } = terminal(120);
  const evaluation = { team: 1, suite: "test", temperature: 1, closedBook: false, ...scoreOf(90, 45) };
  openDisplay(six, [], output).event({ kind: "evaluation", evaluation, lost: "6 answers lost, not counted (judge)" });
  const [score, warning] = lines().filter((line) => /test after 1 step|warning/.test(line));
  expect(score).toContain("45 of 90");
  expect(warning?.trim()).toBe("warning: 6 answers lost, not counted (judge)");
});

test("without a terminal, a step is one line of JSON, and so is a wait for workers each time it begins; rollout progress is not printed", () => {
  const lines: string[] = [];
  const output = { isTTY: false, write: (line: string) => lines.push(line) > 0 } as unknown as NodeJS.WriteStream;
  const display = openDisplay(config, [], output);
  display.event({ kind: "waiting", step: 0, for: "rollouts 3/4" });
  display.event({ kind: "waiting", step: 0, for: "waiting for: searcher/rollout" });
  display.event({ kind: "waiting", step: 0, for: "waiting for: searcher/rollout" });
  display.event({ kind: "step", summary });
  expect(lines.map((line) => JSON.parse(line).kind)).toEqual(["waiting", "step"]);
  display.event({ kind: "waiting", step: 1, for: "rollouts 1/4" });
  display.event({ kind: "waiting", step: 1, for: "waiting for: searcher/rollout" });
  expect(lines.map((line) => JSON.parse(line).kind)).toEqual(["waiting", "step", "waiting"]);
  expect(lines.every((line) => line.endsWith("\n"))).toBe(true);
});
