/**
 * @file Shows a supervised training: one live line in a terminal, a line per held-out loss, its losses as a chart beside the result's folder,
 * and its result.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { heldOutLossAt, type Progress, recentLoss } from "../../sft/progress.ts";
import type { AgentResult, AgentTraining } from "../../sft/train-agent.ts";
import { openLiveLine } from "../terminal/live.ts";
import { drawLosses } from "./loss-curve.ts";

/** Number of steps over which the shown loss is averaged. */
const RECENT = 20;

export async function followTraining(
  training: AgentTraining,
  train: (training: AgentTraining) => Promise<AgentResult>,
): Promise<void> {
  const live = openLiveLine(process.stderr);
  const { agent, plan } = training;
  live.print(openingLine(training));
  let from: Progress | undefined;
  let started = performance.now();
  let evaluated = 0;
  try {
    const { progress, isNew } = await train({
      ...training,
      onOpen(resumed) {
        from = resumed;
        started = performance.now();
        evaluated = resumed.losses.length;
        if (resumed.losses.length > 0) live.print(`${agent}: continues after step ${resumed.losses.length}`);
      },
      onStep(progress) {
        const line = progressLine(agent, progress, plan.tokens, speedOf(progress, from, started));
        live.show(() => line);
        const { step = 0 } = progress.evaluations.at(-1) ?? {};
        if (step > evaluated) {
          live.print(line);
          writeCurve(training, progress);
        }
        evaluated = step;
      },
    });
    writeCurve(training, progress);
    live.print(resultLine(training, progress, isNew));
  } finally {
    live.close();
  }
}

/** A copy of what the training's state says, which every evaluation replaces. */
function writeCurve({ agent, plan, folder }: AgentTraining, progress: Progress): void {
  mkdirSync(dirname(folder), { recursive: true });
  writeFileSync(curveFile(folder), drawLosses(agent, progress, plan.learningRate));
}

const curveFile = (folder: string): string => `${folder}-loss.svg`;

/** The share that is held out can hit none of a few demonstrations. */
function openingLine({ agent, plan, examples: { training, heldOut } }: AgentTraining): string {
  const counts = `${agent}: ${training.length} demonstrations to train on, ${plan.tokens} tokens`;
  if (heldOut.length > 0) return `${counts}; ${heldOut.length} held out`;
  return `${counts}; none held out, so the last checkpoint is kept`;
}

function speedOf(progress: Progress, from: Progress | undefined, started: number): number {
  return Math.round((1000 * (progress.tokens - (from?.tokens ?? 0))) / (performance.now() - started));
}

function progressLine(agent: string, progress: Progress, tokens: number, speed: number): string {
  const heldOut = progress.evaluations.at(-1)?.loss;
  const parts = [
    `${agent}: step ${progress.losses.length}`,
    `${Math.round((100 * progress.tokens) / tokens)} % of ${tokens} tokens`,
    `loss ${recentLoss(progress, RECENT).toFixed(4)}`,
    ...(heldOut === undefined ? [] : [`held-out ${heldOut.toFixed(4)}`]),
    `${speed} tokens/s`,
  ];
  return parts.join(", ");
}

function resultLine({ agent, folder }: AgentTraining, progress: Progress, isNew: boolean): string {
  const loss = heldOutLossAt(progress, progress.best);
  const before = heldOutLossAt(progress, 0);
  const quality = loss === undefined ? "" : `, held-out loss ${before?.toFixed(4)} -> ${loss.toFixed(4)}`;
  const why = progress.ended === "patience" ? " (the held-out loss stopped falling)" : "";
  const what = isNew ? `trained ${progress.losses.length} steps${why}` : "was trained already";
  return `${agent}: ${what}; step ${progress.best} is in ${folder}${quality}`;
}
