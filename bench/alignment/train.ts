/** @file Trains the tabular searcher of world.ts with the program's own objective, with one way of weighting its trajectories. */
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import type { RolloutScore } from "../../core/contracts/records.ts";
import { gradientScale, type LossTerm, lossTerms } from "../../core/mgrpo/batch.ts";
import { finalizeGroup } from "../../core/mgrpo/finalize.ts";
import { trajectoryLoss } from "../../core/mgrpo/loss.ts";
import { subReward } from "../../core/mgrpo/reward.ts";
import { stream } from "../../core/random.ts";
import {
  addGradient,
  COUNTS,
  callsOf,
  isCorrect,
  type Logits,
  newLogits,
  policyOf,
  quality,
  type ReportLengths,
  reportScore,
  type SampledReport,
  type SyntheticWorld,
  sampleReport,
  type TabularPolicy,
  tasksOf,
  zeroGradient,
} from "./world.ts";

/** Besides the program's modes: `pooled`, in which all trajectories of the batch have the same weight, so questions with more calls count more. */
export const MODES = ["resample", "weighted", "none", "pooled"] as const;
export type Mode = (typeof MODES)[number];

const [QUESTIONS, K, D] = [8, 8, 8];
const LEARNING_RATE = 0.05;
const [BETA1, BETA2, EPSILON] = [0.9, 0.99, 1e-8];

export interface TrainingResult {
  /** After each step: the mean quality of the tasks, weighted by their shares of the rollouts. */
  readonly scores: readonly number[];
  /** At the end: the quality of each of the world's tasks, in the order of `tasksOf`. */
  readonly qualities: readonly number[];
}

export interface TrainingOptions {
  readonly lengths?: ReportLengths;
  /** Absent: COUNTS. */
  readonly counts?: readonly number[];
  readonly aggregation?: AlgorithmConfig["aggregation"];
}

export function trainSearcher(
  world: SyntheticWorld,
  mode: Mode,
  seed: number,
  steps: number,
  { lengths = "equal", counts = COUNTS, aggregation = "trajectory-mean" }: TrainingOptions = {},
): TrainingResult {
  const alignment = { mode: mode === "pooled" ? ("none" as const) : mode, d: D };
  const algorithm = AlgorithmConfig.parse({ alignment, aggregation });
  const random = stream("alignment", world, seed);
  const logits = newLogits(random, lengths);
  const adam = { first: new Float64Array(logits.length), second: new Float64Array(logits.length) };
  const tasks = tasksOf(world, lengths, counts);
  const scores: number[] = [];
  for (let step = 0; step < steps; step++) {
    const policy = policyOf(logits);
    const questions = Array.from({ length: QUESTIONS }, (_, q) => {
      const own = stream("alignment", world, seed, step, q);
      const calls_K = callsOf(world, lengths, q, K, own, counts);
      const rollouts = calls_K.map((calls) => calls.map((call) => sampleReport(policy, call, own)));
      return weightedQuestion(rollouts, algorithm, [seed, step, q]);
    }).filter(({ reports }) => reports.length > 0);
    updateLogits(logits, adam, gradientOf(policy, questions, algorithm, mode), step);
    const after = policyOf(logits);
    scores.push(tasks.reduce((sum, task) => sum + task.ofRollouts * quality(after, task), 0));
  }
  const last = policyOf(logits);
  return { scores, qualities: tasks.map((task) => quality(last, task)) };
}

interface WeightedQuestion {
  readonly reports: readonly SampledReport[];
  readonly terms: readonly LossTerm[];
  /** Number of calls in all its rollouts. */
  readonly calls: number;
}

/** The group of one question, scored, aligned and normalized like any other. */
function weightedQuestion(
  rollouts: readonly (readonly SampledReport[])[],
  algorithm: AlgorithmConfig,
  name: readonly number[],
): WeightedQuestion {
  const scored = rollouts.map((reports, k): RolloutScore => {
    const correct = isCorrect(reports) ? 1 : 0;
    const invocations = reports.map((report, i) => {
      const expert = reportScore(report);
      return { id: `${k}-${i}`.padEnd(22, "0"), expert, reward: subReward(true, correct, expert, algorithm.subReward) };
    });
    return { reward: correct, correct, wellFormed: true, tokens: 0, invocations: { searcher: invocations } };
  });
  const batch = finalizeGroup(Object.fromEntries(scored.entries()), "main", ["searcher"], algorithm, name)["searcher"];
  const calls = rollouts.flat().length;
  if (!batch) return { reports: [], terms: [], calls };
  const reports = batch.trajectories.flatMap((id) => {
    const [k, i] = String(id).split("/").map(Number);
    return rollouts[k ?? 0]?.[i ?? 0] ?? [];
  });
  return {
    reports,
    terms: lossTerms(
      batch,
      reports.map(({ tokens }) => tokens.length),
      algorithm,
    ),
    calls,
  };
}

function gradientOf(
  policy: TabularPolicy,
  questions: readonly WeightedQuestion[],
  algorithm: AlgorithmConfig,
  mode: Mode,
): Float64Array {
  const gradient = zeroGradient(policy);
  const meanCalls = questions.reduce((sum, { calls }) => sum + calls, 0) / questions.length;
  for (const { reports, terms, calls } of questions) {
    const weight = mode === "pooled" ? calls / meanCalls : 1;
    for (const [i, report] of reports.entries()) {
      const term = terms[i];
      if (!term) continue;
      const { logProbs } = report;
      const policies = { current_A: logProbs, behavior_A: logProbs, proximal_A: [], reference_A: [] };
      const { gradient_A } = trajectoryLoss({ ...term, ...policies }, algorithm);
      const scale = weight * gradientScale(questions.length, 1);
      addGradient(
        gradient,
        policy,
        report,
        gradient_A.map((one) => scale * one),
      );
    }
  }
  return gradient;
}

/** Adam, as in the engines (Kingma and Ba 2015, arXiv 1412.6980). */
function updateLogits(
  logits: Logits,
  { first, second }: { first: Float64Array; second: Float64Array },
  gradient: Float64Array,
  step: number,
): void {
  gradient.forEach((g, i) => {
    first[i] = BETA1 * (first[i] ?? 0) + (1 - BETA1) * g;
    second[i] = BETA2 * (second[i] ?? 0) + (1 - BETA2) * g * g;
    const mean = (first[i] ?? 0) / (1 - BETA1 ** (step + 1));
    const deviation = Math.sqrt((second[i] ?? 0) / (1 - BETA2 ** (step + 1)));
    logits[i] = (logits[i] ?? 0) - (LEARNING_RATE * mean) / (deviation + EPSILON);
  });
}
