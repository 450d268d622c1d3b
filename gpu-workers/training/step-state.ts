/** @file What a training step keeps for each agent that trains its policy, and the statistics computed from it. */
import type { AgentStats, TrainingStats } from "../../core/contracts/checkpoint.ts";
import { trajectoryLoss } from "../../core/mgrpo/loss.ts";
import { mismatch } from "../../core/mgrpo/mismatch.ts";
import type { GradientTrainer } from "../busy.ts";
import type { PreparedEntry, TrainStepConfig } from "./objective-passes.ts";

/** An agent that trains the policy, and how. */
export interface TrainedAgent {
  readonly agent: string;
  /** Its share of the policy's loss. The shares of all agents that train it sum to 1. */
  readonly share: number;
  readonly config: TrainStepConfig;
}

export interface TrainedStep {
  readonly trained: boolean;
  readonly stats: TrainingStats;
  /** By agent, for those with trajectories in the batch. Absent unless agents share the policy. */
  readonly perAgent?: Record<string, AgentStats>;
}

/** What a pass measures about the policy. */
interface PassStatistics {
  readonly loss: number;
  /** Whether the batch's first optimizer step came before the pass. */
  readonly moved: boolean;
  readonly klSum: number;
  readonly maxRatioDeviation: number;
  readonly clipped: number;
  readonly masked: number;
  readonly truncated: number;
  readonly tokens: number;
}

/** One agent's part in a training step under way. */
export interface AgentState extends TrainedAgent {
  /** The groups seen so far, each with the standard deviation of its rewards. The loss is the mean over these groups. */
  readonly questions: Map<number, number>;
  readonly counts: { trajectories: number; actionTokens: number; tokens: number };
  /** Sum of -log p over its action tokens. */
  surprisal: number;
  buffered: PreparedEntry[];
  /** The factor in its token weights: 1 unless it shares the policy. */
  scale: number;
  readonly passes: PassStatistics[];
  /** Sum over the optimizer steps of the norm of its gradient. Null: unknown. */
  gradientNormSum: number | null;
}

/** A training step under way. */
export interface StepState {
  readonly trainer: GradientTrainer;
  readonly agents: readonly AgentState[];
  /** Norms of the whole gradient, one per optimizer step. */
  readonly gradientNorms: number[];
}

export function openAgentState(agent: TrainedAgent): AgentState {
  const counts = { trajectories: 0, actionTokens: 0, tokens: 0 };
  const measured = { questions: new Map<number, number>(), counts, surprisal: 0, passes: [], gradientNormSum: 0 };
  return { ...agent, ...measured, buffered: [], scale: 1 };
}

export const firstOf = ([first]: readonly AgentState[]): AgentState => {
  if (first) return first;
  throw new RangeError("a training step needs at least one agent");
};

/** Number of questions that any of the agents trains on. */
export const questionCount = (agents: readonly AgentState[]): number =>
  new Set(agents.flatMap(({ questions }) => [...questions.keys()])).size;

/** The statistics of the given agents: all of them, or one. */
export function statsOf({ gradientNorms }: StepState, agents: readonly AgentState[]): TrainingStats {
  const counts = {
    trajectories: total(agents, (agent) => agent.counts.trajectories),
    actionTokens: total(agents, (agent) => agent.counts.actionTokens),
    tokens: total(agents, (agent) => agent.counts.tokens),
  };
  const entropy = counts.actionTokens > 0 && {
    entropy: total(agents, (agent) => agent.surprisal) / counts.actionTokens,
  };
  const passes = agents.flatMap((agent) => agent.passes);
  if (passes.length === 0) return { loss: 0, gradientNorm: 0, ...entropy, ...counts };
  const before = passes.filter(({ moved }) => !moved);
  const fractionOf = (count: (pass: PassStatistics) => number) =>
    total(passes, count) / total(passes, ({ tokens }) => tokens);
  const isSet = (option: "ratioMask" | "tisCap") => agents.some(({ config }) => config.algorithm[option] !== null);
  return {
    loss: total(agents, (agent) => (agents.length === 1 ? 1 : agent.share) * lossOf(agent)),
    gradientNorm: total(gradientNorms, (norm) => norm) / gradientNorms.length,
    clipFraction: fractionOf(({ clipped }) => clipped),
    ...(isSet("ratioMask") && { maskedFraction: fractionOf(({ masked }) => masked) }),
    ...(isSet("tisCap") && { truncatedFraction: fractionOf(({ truncated }) => truncated) }),
    kl: total(before, ({ klSum }) => klSum) / total(before, ({ tokens }) => tokens),
    maxRatioDeviation: Math.max(...before.map(({ maxRatioDeviation }) => maxRatioDeviation)),
    ...entropy,
    ...counts,
  };
}

/** An agent's loss: the mean over its questions and over the epochs. */
function lossOf({ passes, questions, scale, config }: AgentState): number {
  if (passes.length === 0) return 0;
  return total(passes, ({ loss }) => loss) / scale / questions.size / config.algorithm.epochs;
}

export function agentStats(step: StepState, agent: AgentState): AgentStats {
  const { share, gradientNormSum } = agent;
  const norm = gradientNormSum === null ? null : gradientNormSum / Math.max(1, step.gradientNorms.length);
  return { ...statsOf(step, [agent]), gradientNorm: norm, share };
}

/** Measures a pass, and reports its named trajectories to `onTokens`. */
export function measurePass(entries: readonly PreparedEntry[], current: readonly number[][], config: TrainStepConfig) {
  const counts = { clipped: 0, masked: 0, truncated: 0, tokens: 0 };
  let [klSum, maxRatioDeviation] = [0, 0];
  entries.forEach(({ name, loss }, i) => {
    const current_A = current[i] ?? [];
    const distance = mismatch(current_A, loss.behavior_A);
    klSum += distance.klSum;
    maxRatioDeviation = Math.max(maxRatioDeviation, distance.maxRatioDeviation);
    const terms = trajectoryLoss({ ...loss, current_A }, config.algorithm);
    counts.clipped += terms.clipped;
    counts.masked += terms.masked;
    counts.truncated += terms.truncated;
    if (name !== undefined) config.onTokens?.(name, beforeUpdate(loss, current_A), terms.clippedTokens);
    counts.tokens += current_A.length;
  });
  return { klSum, maxRatioDeviation, ...counts };
}

/** The log-probs before the step's first update where the objective needs them, else those of this pass. */
const beforeUpdate = ({ proximal_A }: PreparedEntry["loss"], current_A: readonly number[]): ArrayLike<number> =>
  proximal_A.length > 0 ? proximal_A : current_A;

export function total<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0);
}
