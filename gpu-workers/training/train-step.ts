/**
 * @file One training step of one policy: finalized trajectories in, part by part; new weights in the Trainer. core holds the algorithm; this
 * file orders its passes (objective-passes.ts) and optimizer steps.
 *
 *   a part ── drop what has no gradient ──┬─ one agent, one minibatch, one epoch, no `advantageScale: batch`: its gradient at once
 *                                         └─ else: buffered until all parts are there, then scaled and split
 *   all parts ──┬─ no gradient ──────────────> trained: false, no optimizer step
 *               └─ mean over the questions ──> an optimizer step (one per minibatch and epoch)
 *
 * Each of the agents that share the policy has a loss of its own, over its own questions, and the policy's is their weighted sum. An optimizer
 * step adds up the gradients of the agents that have a minibatch for it: an agent with very few trajectories has fewer minibatches than others.
 */
import type { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import type { Trajectory } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { batchStd } from "../../core/mgrpo/advantage.ts";
import { agentScale, gradientScale, hasGradient, type LossTerm, splitMinibatches } from "../../core/mgrpo/batch.ts";
import { actionPositions_A, spreadTurns } from "../../core/mgrpo/tokens.ts";
import type { Trainer } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import type { GradientTrainer } from "../busy.ts";
import { gradientPass, type PreparedEntry, withEarlierPolicies } from "./objective-passes.ts";
import {
  type AgentState,
  agentStats,
  firstOf,
  measurePass,
  openAgentState,
  questionCount,
  type StepState,
  statsOf,
  type TrainedAgent,
  type TrainedStep,
  total,
} from "./step-state.ts";

/** One distinct trajectory of the batch. */
export interface TrainingEntry extends LossTerm {
  readonly trajectory: Trajectory;
  /** Its name in calls of `onTokens`. */
  readonly name?: string;
  /** Index of its group: the gradient of a step is the mean over its groups. */
  readonly group: number;
  /** Standard deviation of its group's rewards. Used only under `advantageScale: batch`. */
  readonly groupStd: number;
}

export type Parts = AsyncIterable<readonly TrainingEntry[]> | Iterable<readonly TrainingEntry[]>;
type Reference = Pick<Trainer, "logProbs">;

/**
 * Trains on a batch that arrives in parts, each with all trajectories of its questions. A trajectory whose gradient is zero by construction
 * (weight 0, or every turn's advantage 0 without a KL term or an entropy bonus) is skipped, but the counts in `stats` include it.
 * `maxRatioDeviation` and `kl` cover only the log-probs that are computed before the first optimizer step, and are only reported: callers warn.
 * `reference` is required when the KL coefficient is positive. `trained`: the agents that share the policy, with one optimizer and the same
 * numbers of minibatches and epochs; each takes the trajectories that name it. A single one takes every trajectory.
 */
export async function trainStep(
  trainer: GradientTrainer,
  parts: Parts,
  trained: readonly TrainedAgent[],
  reference?: Reference,
): Promise<TrainedStep> {
  const agents = trained.map(openAgentState);
  const step: StepState = { trainer, agents, gradientNorms: [] };
  for await (const part of parts) {
    for (const agent of agents) await takePart(step, agent, entriesOf(part, agent, agents), reference);
  }
  if (agents.some(({ passes }) => passes.length > 0)) await update(step, 1);
  for (const agent of agents) agent.buffered = withBatchScale(agent);
  const { epochs } = firstOf(agents).config.algorithm;
  for (let epoch = 0; epoch < epochs; epoch++) await trainEpoch(step, epoch);
  const isTrained = step.gradientNorms.length > 0;
  if (agents.length === 1) return { trained: isTrained, stats: statsOf(step, agents) };
  const contributing = agents.filter(({ counts }) => counts.trajectories > 0);
  return {
    trained: isTrained,
    stats: statsOf(step, agents),
    perAgent: Object.fromEntries(contributing.map((one) => [one.agent, agentStats(step, one)])),
  };
}

const entriesOf = (part: readonly TrainingEntry[], { agent }: AgentState, { length }: readonly AgentState[]) =>
  length === 1 ? part : part.filter(({ trajectory }) => trajectory.agent === agent);

/** Computes the gradient of an agent's part at once, if that is possible. */
async function takePart(
  step: StepState,
  agent: AgentState,
  part: readonly TrainingEntry[],
  reference: Reference | undefined,
): Promise<void> {
  const { algorithm, entropyCoefficient } = agent.config;
  // The schedule of an entropy bonus may be at 0.
  const effective = entropyCoefficient === 0 ? { ...algorithm, entropy: null } : algorithm;
  const entries = part.map(prepare);
  countPart(agent, part, entries);
  const withGradient = entries.filter((_, i) => part[i] && hasGradient(part[i], effective));
  const complete = await withEarlierPolicies(step.trainer, withGradient, agent.config, reference);
  if (step.agents.length > 1 || needsWholeBatch(algorithm)) agent.buffered.push(...complete);
  else if (complete.length > 0) await accumulateGradient(step, agent, complete);
}

/** One optimizer step per minibatch. Each epoch shuffles the batch into minibatches again. */
async function trainEpoch(step: StepState, epoch: number): Promise<void> {
  const batches = step.agents.map((agent) => {
    const { algorithm, minibatchStream } = agent.config;
    const random = stream(...minibatchStream, ...(epoch === 0 ? [] : [epoch]));
    return { agent, minibatches: splitMinibatches(agent.buffered, algorithm.minibatches, random) };
  });
  const steps = Math.max(...batches.map(({ minibatches }) => minibatches.length));
  for (const { agent } of batches.filter(({ minibatches }) => minibatches.length > 0)) {
    agent.scale = agentScale(agent.share, { own: agent.questions.size, all: questionCount(step.agents) });
  }
  for (let i = 0; i < steps; i++) {
    for (const { agent, minibatches } of batches) {
      const minibatch = minibatches[i];
      if (!minibatch) continue;
      await accumulateGradient(step, agent, scaledBy(agent.scale, minibatch));
      await measureGradient(step, agent, steps);
    }
    await update(step, steps);
  }
}

function scaledBy(scale: number, entries: readonly PreparedEntry[]): readonly PreparedEntry[] {
  if (scale === 1) return entries;
  return entries.map((entry) => ({
    ...entry,
    loss: { ...entry.loss, tokenWeight: entry.loss.tokenWeight * scale },
  }));
}

/** Whether the algorithm needs all parts before it trains on any: to split or scale the batch, or to train on it more than once. */
function needsWholeBatch({ minibatches, epochs, advantageScale }: AlgorithmConfig): boolean {
  return minibatches > 1 || epochs > 1 || advantageScale === "batch";
}

/** Under `advantageScale: batch`, divides the advantages by `batchStd`, the root mean square of the groups' standard deviations. */
function withBatchScale({ questions, config, buffered }: AgentState): PreparedEntry[] {
  const { advantageScale, epsilon } = config.algorithm;
  if (advantageScale !== "batch") return buffered;
  const scale = batchStd([...questions.values()]) + epsilon;
  return buffered.map((entry) => ({ ...entry, loss: { ...entry.loss, advantage: entry.loss.advantage / scale } }));
}

function countPart(agent: AgentState, part: readonly TrainingEntry[], entries: readonly PreparedEntry[]): void {
  const { questions, counts } = agent;
  for (const { group, groupStd } of part) questions.set(group, groupStd);
  counts.trajectories += entries.length;
  counts.actionTokens += total(entries, ({ positions_A }) => positions_A.length);
  counts.tokens += total(entries, ({ tokens }) => tokens.length);
  agent.surprisal -= total(part, ({ trajectory }) => total(trajectory.logProbs, (logProb) => logProb));
}

async function accumulateGradient(
  { trainer, gradientNorms }: StepState,
  { config, passes }: AgentState,
  entries: readonly PreparedEntry[],
): Promise<void> {
  const moved = gradientNorms.length > 0;
  const pass = await gradientPass(trainer, entries, config, moved);
  refuseNonFinite(pass.loss, "loss");
  passes.push({ loss: pass.loss, moved, ...measurePass(entries, pass.current, config) });
}

/** Adds the norm of the gradient just accumulated to the agent's sum, or sets the sum to null if the engine reports none. Skipped for a single agent. */
async function measureGradient({ trainer, agents }: StepState, agent: AgentState, minibatches: number): Promise<void> {
  if (agents.length === 1) return;
  const norm = await trainer.gradientNorm?.();
  const scale = gradientScale(questionCount(agents), minibatches);
  agent.gradientNormSum = norm === undefined ? null : (agent.gradientNormSum ?? 0) + scale * norm;
}

/** Steps the optimizer on one of the batch's minibatches. */
async function update({ trainer, agents, gradientNorms }: StepState, minibatches: number): Promise<void> {
  const scale = gradientScale(questionCount(agents), minibatches);
  const { gradientNorm } = await trainer.optimizerStep(firstOf(agents).config.optimizer, scale);
  refuseNonFinite(gradientNorm, "gradient norm");
  gradientNorms.push(gradientNorm);
}

function prepare({ trajectory, name, group, advantage, tokenWeight, turns }: TrainingEntry): PreparedEntry {
  const offsets = turns && { offsets_A: spreadTurns(trajectory, turns) };
  return {
    name,
    group,
    tokens: trajectory.tokens,
    positions_A: actionPositions_A(trajectory),
    loss: { advantage, ...offsets, tokenWeight, behavior_A: trajectory.logProbs, proximal_A: [], reference_A: [] },
  };
}

/** Halts the run instead of publishing NaN: the last version stays intact. */
function refuseNonFinite(value: number, what: string): void {
  if (Number.isFinite(value)) return;
  const message = `training step: ${what} is ${value}: lower the learning rate, set algorithm.ratio to token, or set algorithm.ratioMask`;
  throw new MgrpoError("run-halted", message);
}
