/**
 * @file `metrics.jsonl` in a run's folder: one line per closed step and per finished evaluation. If a repeated evaluation has other metrics,
 * another line is added, and the newest counts. Lines are only appended, so a tracker's position stays valid across all sessions of the run.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { evaluationMetrics, MetricLine, stepMetrics } from "../../core/monitoring/metrics.ts";
import type { StepSummary } from "../../core/monitoring/step-summary.ts";
import type { TeamEvaluation } from "../../core/monitoring/team-evaluation.ts";
import { parseDerivedText } from "./run-folder.ts";
import { writeAtomically } from "./written-files.ts";

/** What to do about a damaged file of this kind. `resume` and `track` both recreate it. */
const REPEAT = "remove this file, and repeat the command to recreate it";

export class MetricsFile {
  readonly lines: MetricLine[];
  readonly #path: string;
  /** The newest lines by name. */
  readonly #known: Map<string, MetricLine>;
  readonly #now: () => number;

  /** @param now wall-clock milliseconds. */
  constructor(path: string, now: () => number = Date.now) {
    this.#path = path;
    this.#now = now;
    const text = existsSync(path) ? readFileSync(path, "utf8") : "";
    this.lines = text
      .split("\n")
      .slice(0, -1)
      .map((line, i) => parseDerivedText(MetricLine, line, `${path}, line ${i + 1}`, REPEAT));
    this.#known = new Map(this.lines.map((line) => [nameOf(line), line]));
    // Removes a line that a kill cut short.
    if (text !== "" && !text.endsWith("\n")) writeAtomically(path, this.lines.map(textOf).join(""));
  }

  /** A step's metrics never change. `time`: wall-clock milliseconds; absent: now. */
  addStep(summary: StepSummary, time = this.#now()): void {
    const measured = stepMetrics(summary);
    if (!this.#known.has(nameOf(measured))) this.#append({ ...measured, time });
  }

  addEvaluation(evaluation: TeamEvaluation): void {
    const measured = evaluationMetrics(evaluation);
    const known = this.#known.get(nameOf(measured));
    if (JSON.stringify(known?.metrics) === JSON.stringify(measured.metrics)) return;
    this.#append({ ...measured, time: this.#now() });
  }

  hasStep(step: number): boolean {
    return this.#known.has(nameOf({ step: step + 1, source: "step" }));
  }

  #append({ step, time, source, metrics }: MetricLine): void {
    const line = { step, time, source, metrics };
    appendFileSync(this.#path, textOf(line));
    this.#known.set(nameOf(line), line);
    this.lines.push(line);
  }
}

const nameOf = ({ step, source }: Pick<MetricLine, "step" | "source">): string => `${step} ${source}`;
const textOf = (line: MetricLine): string => `${JSON.stringify(line)}\n`;
