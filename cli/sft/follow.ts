/**
 * @file Reports supervised training: a live line on a terminal; a printed line at the start, for each held-out loss after the first, and for
 * the result; a warning if the held-out loss never fell below its first value; and a chart of the losses next to the result's folder.
 */
import { writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { heldOutLossAt, recentLoss, type TrainingProgress, warningOf } from "../../sft/progress.ts";
import type { AgentTraining, AgentTrainingResult } from "../../sft/train-agent.ts";
import { counted, percent } from "../terminal/columns.ts";
import { openLiveLine } from "../terminal/live.ts";
import { makeFolder } from "../writable-folder.ts";
import { drawLosses } from "./loss-curve.ts";

/** Number of steps over which the shown loss is averaged. */
const RECENT_STEPS = 20;

export async function followTraining(
  training: AgentTraining,
  train: (training: AgentTraining) => Promise<AgentTrainingResult>,
): Promise<void> {
  const live = openLiveLine(process.stderr);
  const { agent, plan } = training;
  live.print(openingLine(training));
  let from: TrainingProgress | undefined;
  let startedMilliseconds = performance.now();
  let evaluatedStep = 0;
  try {
    const { progress, hasTrained } = await train({
      ...training,
      onOpen(resumed) {
        from = resumed;
        startedMilliseconds = performance.now();
        evaluatedStep = resumed.losses.length;
        if (evaluatedStep > 0) live.print(`${agent}: resumes after step ${evaluatedStep}`);
      },
      onStep(progress) {
        const line = progressLine(agent, progress, plan.tokens, tokensPerSecond(progress, from, startedMilliseconds));
        live.show(() => line);
        const { step = 0 } = progress.evaluations.at(-1) ?? {};
        if (step > evaluatedStep) {
          live.print(line);
          writeCurve(training, progress);
        }
        evaluatedStep = step;
      },
    });
    writeCurve(training, progress);
    live.print(resultLine(training, progress, hasTrained));
    const warning = warningOf(progress);
    if (warning !== undefined) live.print(`warning: ${agent}: ${warning}`);
  } finally {
    live.close();
  }
}

/** Draws the losses so far, in place of the earlier chart. */
function writeCurve({ agent, plan, folder }: AgentTraining, progress: TrainingProgress): void {
  makeFolder(dirname(folder));
  writeFileSync(`${folder}-loss.svg`, drawLosses(agent, progress, plan.learningRate));
}

/** With few demonstrations, it can happen that none is held out. */
function openingLine({ agent, plan, examples: { training, heldOut } }: AgentTraining): string {
  const counts = `${agent}: ${counted(training.length, "demonstration")} to train on, ${plan.tokens} tokens`;
  if (heldOut.length > 0) return `${counts}; ${heldOut.length} held out`;
  return `${counts}; none held out, so the last checkpoint is kept`;
}

function tokensPerSecond(
  progress: TrainingProgress,
  from: TrainingProgress | undefined,
  startedMilliseconds: number,
): number {
  return Math.round((1000 * (progress.tokens - (from?.tokens ?? 0))) / (performance.now() - startedMilliseconds));
}

function progressLine(agent: string, progress: TrainingProgress, plannedTokens: number, speed: number): string {
  const heldOut = progress.evaluations.at(-1)?.loss;
  const parts = [
    `${agent}: step ${progress.losses.length}`,
    `${percent(progress.tokens / plannedTokens)} of ${plannedTokens} tokens`,
    `loss ${recentLoss(progress, RECENT_STEPS).toFixed(4)}`,
    ...(heldOut === undefined ? [] : [`held-out ${heldOut.toFixed(4)}`]),
    `${speed} tokens/s`,
  ];
  return parts.join(", ");
}

function resultLine({ agent, folder }: AgentTraining, progress: TrainingProgress, hasTrained: boolean): string {
  const loss = heldOutLossAt(progress, progress.best);
  const before = heldOutLossAt(progress, 0);
  const quality = loss === undefined ? "" : `, held-out loss ${before?.toFixed(4)} -> ${loss.toFixed(4)}`;
  const why = progress.ended === "patience" ? " (the held-out loss stopped falling)" : "";
  const what = hasTrained ? `trained ${counted(progress.losses.length, "step")}${why}` : "already trained";
  return `${agent}: ${what}; step ${progress.best} is in ${folder}${quality}`;
}
