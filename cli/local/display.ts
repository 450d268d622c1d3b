/**
 * @file Shows a run's progress. On a terminal: a table that grows by a row per step, above a live line with the progress and what the run
 * is doing or waiting for. Elsewhere: one JSON object per line, for other programs.
 */
import colors from "picocolors";
import wrapAnsi from "wrap-ansi";
import type { RunConfig } from "../../core/contracts/config.ts";
import { describeOptimizer } from "../../core/contracts/server-optimizer.ts";
import type { StepSummary } from "../../core/monitoring/step-summary.ts";
import { type TeamEvaluation, trackedSuite } from "../../core/monitoring/team-evaluation.ts";
import { accuracy, type Column, columnsOf, correctOf, counted, padded, type StepRow } from "../terminal/columns.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import { flow, terminalWidth } from "../terminal/flow.ts";
import { type LiveText, openLiveText } from "../terminal/live-text.ts";
import { afterStep, progressLine, type RunProgress, runProgressOf, secondsLeft } from "../terminal/progress.ts";
import type { RunEvent } from "./follow.ts";

const ROWS_PER_HEADER = 25;
const AGENT_TONES = [colors.blue, colors.yellow, colors.magenta, colors.cyan];

export interface Display {
  event(event: RunEvent): void;
  /** Prints a line above the live line. */
  print(line: string): void;
  /** Restores the terminal. */
  close(): void;
}

/** `earlier`: the steps of a resumed run, which are not shown again. */
export function openDisplay(
  config: RunConfig,
  earlier: readonly StepSummary[] = [],
  output: NodeJS.WriteStream = process.stdout,
): Display {
  return output.isTTY ? new LiveTable(config, runProgressOf(earlier), output) : new JsonLines(output);
}

class JsonLines implements Display {
  readonly #output: NodeJS.WritableStream;
  /** What the run was doing or waiting for at the last event that said so. */
  #activity = "";

  constructor(output: NodeJS.WritableStream) {
    this.#output = output;
  }

  event(event: RunEvent): void {
    if (event.kind === "waiting") {
      const isRepeated = event.for === this.#activity;
      this.#activity = event.for;
      // Rollout progress would print a line every two seconds, so a line is printed only when something begins to block the run.
      if (isRepeated || !event.for.startsWith("waiting")) return;
    }
    this.#print(event.kind === "step" ? { kind: "step", ...event.summary } : event);
  }

  print(line: string): void {
    this.#print({ kind: "note", text: line });
  }

  close(): void {}

  #print(value: unknown): void {
    this.#output.write(`${JSON.stringify(value)}\n`);
  }
}

class LiveTable implements Display {
  readonly #config: RunConfig;
  readonly #output: NodeJS.WriteStream;
  readonly #live: LiveText;
  readonly #columns: readonly Column[];
  #progress: RunProgress;
  /** The score of the newest team that was evaluated on the tracked suite. */
  #heldOut: { readonly team: number; readonly share: number } | undefined;
  #rows = 0;
  /** What the run is doing or waiting for; empty before it is known. */
  #activity = "";

  constructor(config: RunConfig, progress: RunProgress, output: NodeJS.WriteStream) {
    this.#config = config;
    this.#output = output;
    this.#live = openLiveText(output);
    this.#columns = columnsOf(config, terminalWidth(output));
    this.#progress = progress;
  }

  event(event: RunEvent): void {
    if (event.kind === "step") this.#step(event.summary);
    if (event.kind === "evaluation") this.#evaluation(event.evaluation);
    if (event.kind === "evaluation" && event.lost) this.print(colors.yellow(`  warning: ${event.lost}`));
    if (event.kind === "optimizer")
      this.print(`  ${event.agent}: ${stripControlCharacters(describeOptimizer(event.optimizer))}`);
    if (event.kind === "stalled") this.print(colors.yellow(`  ${stripControlCharacters(event.text)}`));
    if (event.kind === "waiting") {
      this.#activity = stripControlCharacters(event.for);
      this.#draw();
    }
  }

  print(line: string): void {
    this.#live.clear();
    this.#output.write(`${wrapAnsi(line, terminalWidth(this.#output), { hard: true, trim: false })}\n`);
    if (this.#activity !== "") this.#draw();
  }

  close(): void {
    this.#live.clear();
    this.#live.done();
  }

  #step(summary: StepSummary): void {
    this.#progress = afterStep(this.#progress, summary);
    if (this.#rows++ % ROWS_PER_HEADER === 0) this.print(header(this.#columns));
    const left = secondsLeft(this.#config, this.#progress);
    this.print(row(this.#columns, { summary, heldOut: this.#heldOut?.share, secondsLeft: left }));
  }

  #evaluation(evaluation: TeamEvaluation): void {
    const { team, suite, n, correct } = evaluation;
    // An evaluation that lost every rollout has no score. One that was reopened to retry lost answers may end after that of a newer team.
    const isNewest = team >= (this.#heldOut?.team ?? 0);
    if (suite === trackedSuite(this.#config) && n > 0 && isNewest) this.#heldOut = { team, share: correct / n };
    this.print(evaluationLine(evaluation, terminalWidth(this.#output)));
  }

  #draw(): void {
    this.#live(progressLine(this.#config, this.#progress, this.#activity, terminalWidth(this.#output)));
  }
}

function evaluationLine(evaluation: TeamEvaluation, width: number): string {
  const { team, suite } = evaluation;
  const parts = [
    { text: `${suite} after ${counted(team, "step")}:`, tone: colors.green },
    { text: accuracy(evaluation), tone: colors.green },
    { text: correctOf(evaluation), tone: colors.dim },
  ];
  return `  ${colors.green("●")} ${flow(parts, 4, width)}`;
}

function header(columns: readonly Column[]): string {
  return colors.dim(columns.map((column) => padded(column.title, column)).join(""));
}

function row(columns: readonly Column[], values: StepRow): string {
  let agent = 0;
  return columns
    .map((column) => {
      const text = padded(column.cell(values), column);
      if (column.tone === "agent") return (AGENT_TONES[agent++ % AGENT_TONES.length] ?? colors.blue)(text);
      if (column.tone === "held-out") return colors.green(text);
      return column.tone === "faint" ? colors.dim(text) : text;
    })
    .join("");
}
