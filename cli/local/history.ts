/** @file The steps and evaluations of a local run, saved to disk as they end, so that a resumed run reports all of them. */
import { appendFileSync, existsSync } from "node:fs";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { StoreWrites } from "../../core/contracts/store-writes.ts";
import type { StepSummary } from "../../core/monitoring/step-summary.ts";
import { heldOutShare, sortEvaluations, type TeamEvaluation } from "../../core/monitoring/team-evaluation.ts";
import { release } from "../../gpu-workers/release.ts";
import type { EmbeddedCloud } from "./embedded-cloud.ts";
import type { RunEvent } from "./follow.ts";
import { MetricsFile } from "./metrics-file.ts";
import { startOfProcess } from "./process-identity.ts";
import { readSteps } from "./recorded-steps.ts";
import { type RunFolder, type RunStatus, readStatus, writeStatus } from "./run-folder.ts";
import { removeStalePositions } from "./tracking.ts";
import { writeAtomically } from "./written-files.ts";

export class RunHistory {
  readonly steps: StepSummary[];
  /** Those of earlier sessions included, which come from the saved status until their records are read again. */
  evaluations: TeamEvaluation[];
  readonly metrics: MetricsFile;
  /** How the run ended; undefined while it runs, or if this session stopped first. */
  ended: Extract<RunEvent, { kind: "ended" }> | undefined;
  /** What the run has cost; null: unknown so far. */
  usd: number | null;
  readonly #config: RunConfig;
  readonly #folder: RunFolder;
  readonly #cloud: EmbeddedCloud;
  /** The status that earlier sessions left. */
  readonly #before: RunStatus;
  readonly #started = performance.now();
  #scoringSeconds: number;

  constructor(config: RunConfig, folder: RunFolder, cloud: EmbeddedCloud) {
    this.#config = config;
    this.#folder = folder;
    this.#cloud = cloud;
    this.#before = readStatus(folder);
    this.usd = this.#before.usd;
    this.evaluations = this.#before.evaluations;
    this.#scoringSeconds = this.#before.scoringSeconds;
    this.steps = readSteps(folder);
    // Removes a line that a kill cut short, so that the next record starts on its own line.
    if (existsSync(folder.steps)) writeAtomically(folder.steps, this.steps.map(lineOf).join(""));
    removeStalePositions(folder);
    this.metrics = new MetricsFile(folder.metrics);
    for (const summary of this.steps) this.metrics.addStep(summary);
    this.save("running");
  }

  record(event: RunEvent): void {
    if (event.kind === "waiting" || event.kind === "stalled" || event.kind === "trained") return;
    if (event.kind === "ended") this.ended = event;
    if (event.kind === "evaluation") {
      const { evaluation } = event;
      const isOther = ({ team, suite }: TeamEvaluation) => team !== evaluation.team || suite !== evaluation.suite;
      this.evaluations = sortEvaluations(this.#config, [...this.evaluations.filter(isOther), evaluation]);
    }
    if (event.kind === "step") {
      this.usd = event.summary.usd ?? this.usd;
      this.steps.push(event.summary);
      appendFileSync(this.#folder.steps, lineOf(event.summary));
      this.metrics.addStep(event.summary);
    }
    this.save("running");
    // After the status: `mgrpo track` adds the status's evaluations to the metrics. An older status would make it append an outdated score.
    if (event.kind === "evaluation") this.metrics.addEvaluation(event.evaluation);
  }

  save(state: RunStatus["state"], reason = ""): RunStatus {
    this.#scoringSeconds += this.#cloud.takeScoringSeconds();
    const isRunning = state === "running";
    const isFinished = state === "finished";
    const status: RunStatus = {
      ...this.#before,
      steps: isFinished ? this.steps.length : this.#config.steps,
      step: this.steps.length,
      state,
      reason,
      pid: isRunning ? process.pid : 0,
      processStart: isRunning ? startOfProcess(process.pid) : "",
      release: release(process.env),
      environment: isRunning ? { ...this.#cloud.environment } : {},
      seconds: this.#before.seconds + (performance.now() - this.#started) / 1000,
      scoringSeconds: this.#scoringSeconds,
      writes: sumOf(this.#before.writes, this.#cloud.writes()),
      usd: this.usd,
      heldOut: {
        before: heldOutShare(this.evaluations, 0),
        after: isFinished ? heldOutShare(this.evaluations, this.steps.length) : null,
      },
      evaluations: this.evaluations,
    };
    writeStatus(this.#folder, status);
    return status;
  }
}

function lineOf(step: StepSummary): string {
  return `${JSON.stringify(step)}\n`;
}

function sumOf(a: StoreWrites, b: StoreWrites): StoreWrites {
  return { requests: a.requests + b.requests, bytes: a.bytes + b.bytes, units: a.units + b.units };
}
