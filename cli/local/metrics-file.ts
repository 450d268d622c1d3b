/**
 * @file `metrics.jsonl` in a run's folder: one line per closed step and finished evaluation. Lines are only appended, and never twice, so
 * that a tracker's position in it holds over all sessions of the run.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { parseJson } from "../../core/contracts/parse.ts";
import { evaluationMetrics, MetricLine, stepMetrics } from "../../core/monitoring/metrics.ts";
import type { StepSummary } from "../../core/monitoring/step-summary.ts";
import type { TeamEvaluation } from "../../core/monitoring/team-evaluation.ts";
import { writeAtomically } from "./run-folder.ts";

export class MetricsFile {
  readonly lines: MetricLine[];
  readonly #path: string;
  readonly #known: Set<string>;
  readonly #now: () => number;

  /** @param now wall-clock milliseconds. */
  constructor(path: string, now: () => number = Date.now) {
    this.#path = path;
    this.#now = now;
    const text = existsSync(path) ? readFileSync(path, "utf8") : "";
    this.lines = text
      .split("\n")
      .slice(0, -1)
      .map((line) => parseJson(MetricLine, line, path));
    this.#known = new Set(this.lines.map(nameOf));
    // Removes a line that a kill cut short.
    if (text !== "" && !text.endsWith("\n")) writeAtomically(path, this.lines.map(textOf).join(""));
  }

  addStep(summary: StepSummary): void {
    this.#add(stepMetrics(summary));
  }

  addEvaluation(evaluation: TeamEvaluation): void {
    this.#add(evaluationMetrics(evaluation));
  }

  #add(measured: Omit<MetricLine, "time">): void {
    if (this.#known.has(nameOf(measured))) return;
    const { step, source, metrics } = measured;
    const line = { step, time: this.#now(), source, metrics };
    appendFileSync(this.#path, textOf(line));
    this.#known.add(nameOf(line));
    this.lines.push(line);
  }
}

const nameOf = ({ step, source }: Pick<MetricLine, "step" | "source">): string => `${step} ${source}`;
const textOf = (line: MetricLine): string => `${JSON.stringify(line)}\n`;
