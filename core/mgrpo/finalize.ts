/**
 * @file Finalizing a group: from the scores of one question's K rollouts to what each agent trains on. A pure function of the scores and
 * a stream's name: whoever finalizes, in whatever order the rollouts arrived, writes the same record.
 *
 *   rollouts ── excluded out ──┬─> main: reward ───────────────> eq 9-10  ──┐
 *                              └─> each sub-agent: align ──────> eq 12-13 ──┴─> masked out, weights to 1 ──> FinalizedAgent
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";
import type { AgentName } from "../contracts/names.ts";
import type { AgentBatch, GroupRecord, RolloutScore } from "../contracts/records.ts";
import { type Random, type StreamName, stream } from "../random.ts";
import { groupAdvantages } from "./advantage.ts";
import { align } from "./alignment.ts";

type Scored = Exclude<RolloutScore, { excluded: string }>;

/** One distinct trajectory of a group. */
interface Member {
  readonly id: number | string;
  readonly reward: number;
  readonly weight: number;
  readonly masked: boolean;
}

/**
 * Advantages and weights per agent. A rollout lost to infrastructure is out for every agent (K' = those that are left); with fewer
 * than two left the group teaches nothing and no agent is finalized. `name` is the group's stream (seed, step, question, …).
 */
export function finalizeGroup(
  rollouts: GroupRecord["rollouts"],
  main: AgentName,
  subs: readonly AgentName[],
  algorithm: AlgorithmConfig,
  name: StreamName,
): Record<AgentName, AgentBatch> {
  const scored = scoredRollouts(rollouts);
  if (scored.length < 2) return {};
  const mainMembers = scored.map(([k, score]) => ({
    id: k,
    reward: score.reward,
    weight: 1 / scored.length,
    masked: score.masked === true,
  }));
  const agents = [
    [main, finalizeAgent(main, mainMembers, algorithm, name, { duplicated: 0, dropped: 0 })] as const,
    ...subs.map((sub) => [sub, finalizeSubAgent(scored, sub, algorithm, name)] as const),
  ];
  return Object.fromEntries(agents.flatMap(([agent, finalized]) => (finalized ? [[agent, finalized]] : [])));
}

function finalizeSubAgent(
  scored: readonly (readonly [number, Scored])[],
  sub: AgentName,
  algorithm: AlgorithmConfig,
  name: StreamName,
): AgentBatch | undefined {
  const calls_K = scored.map(([, score]) => score.invocations[sub] ?? []);
  const rolloutOf = (k: number) => scored[k]?.[0] ?? k;
  const alignment = align(
    calls_K.map((calls) => calls.length),
    algorithm.alignment,
    (k) => stream(...name, "alignment", sub, rolloutOf(k)),
  );
  const members = calls_K.flatMap((calls, k) =>
    calls.map((call, i) => ({
      id: `${rolloutOf(k)}/${i}`,
      reward: call.reward,
      weight: alignment.weights[k]?.[i] ?? 0,
      masked: call.masked === true,
    })),
  );
  const aligned = members.filter((member) => member.weight > 0);
  return finalizeAgent(sub, aligned, algorithm, name, alignment);
}

/** Undefined when nothing is left to train on. A masked trajectory shapes mean and std and then leaves its share to the others. */
function finalizeAgent(
  agent: AgentName,
  members: readonly Member[],
  algorithm: AlgorithmConfig,
  name: StreamName,
  { duplicated, dropped }: Pick<AgentBatch, "duplicated" | "dropped">,
): AgentBatch | undefined {
  const trained = members.map((member, i) => ({ ...member, i })).filter((member) => !member.masked);
  if (trained.length === 0) return undefined;
  const earned_N = members.map((member) => member.reward);
  const { advantages_N, mean, std } = groupAdvantages(
    algorithm.shuffleAdvantages ? shuffled(earned_N, stream(...name, "shuffle", agent)) : earned_N,
    members.map((member) => member.weight),
    algorithm,
  );
  const total = trained.reduce((sum, member) => sum + member.weight, 0);
  return {
    trajectories: trained.map((member) => member.id),
    weights: shared(trained.map((member) => member.weight / total)),
    advantages: trained.map((member) => shortened(advantages_N[member.i] ?? 0)),
    mean,
    std,
    duplicated,
    dropped,
  };
}

/** One number where all are the same, as they are for most groups: records stay small. */
function shared(weights: readonly number[]): number[] {
  return weights.every((weight) => weight === weights[0]) ? weights.slice(0, 1) : [...weights];
}

/** As the 32-bit float that engines compute with, in the fewest digits that tell it: nine always do. */
function shortened(advantage: number): number {
  const float = Math.fround(advantage);
  const lengths = [6, 7, 8, 9].map((digits) => Number(float.toPrecision(digits)));
  return lengths.find((short) => Math.fround(short) === float) ?? float;
}

/** Dealt out before mean and std are taken: then advantages are as they always are, but for whose they are. */
function shuffled(rewards_N: readonly number[], random: Random): number[] {
  return random.choose(rewards_N.length, rewards_N.length).map((i) => rewards_N[i] ?? 0);
}

/** In rollout order, whatever order they were recorded in: integer keys of an object come out ascending. */
function scoredRollouts(rollouts: GroupRecord["rollouts"]): (readonly [number, Scored])[] {
  return Object.entries(rollouts).flatMap(([k, score]) => ("excluded" in score ? [] : [[Number(k), score] as const]));
}
