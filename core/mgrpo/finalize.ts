/**
 * @file Finalizes a group: turns the scores of one question's K rollouts into what each agent trains on. A pure function of the scores, the
 * settings and a stream's name, so the record does not depend on who finalizes, or on the order in which the rollouts arrived.
 *
 *   rollouts ── drop excluded ──┬─> main: reward ───────────────> eq 9-10  ──┐
 *                               └─> each sub-agent: align ──────> eq 12-13 ──┴─> drop masked, shares sum to 1 ──> AgentBatch
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";
import { algorithmOf } from "../contracts/algorithm-overrides.ts";
import type { AgentName } from "../contracts/names.ts";
import type { AgentBatch, GroupRecord, ScoredInvocation, ScoredRollout } from "../contracts/records.ts";
import { type Random, type StreamName, stream } from "../random.ts";
import { groupAdvantages } from "./advantage.ts";
import { align } from "./alignment.ts";
import { type TurnRewards, turnOffsets } from "./turn-advantage.ts";

/** One distinct trajectory of a group. */
interface Member {
  readonly id: number | string;
  readonly rollout: number;
  readonly reward: number;
  readonly weight: number;
  readonly masked: boolean;
  readonly turns: TurnRewards;
}

/**
 * Advantages and shares per agent; an agent with nothing to train on is absent. A lost rollout is left out for every agent (K' = the number of
 * remaining rollouts). With fewer than two, no agent learns from the group. `name`: the prefix of the names of the group's random streams (seed,
 * step, group, …). `agents`: the agents of the config, of which each may override settings of `algorithm`.
 */
export function finalizeGroup(
  rollouts: GroupRecord["rollouts"],
  main: AgentName,
  subs: readonly AgentName[],
  algorithm: AlgorithmConfig,
  name: StreamName,
  agents: Parameters<typeof algorithmOf>[0]["agents"] = {},
): Record<AgentName, AgentBatch> {
  const scored = scoredRollouts(rollouts);
  if (scored.length < 2) return {};
  const settingsOf = (agent: AgentName) => algorithmOf({ algorithm, agents }, agent);
  const mainMembers = scored.map(([k, score]) => ({
    id: k,
    rollout: k,
    reward: score.reward,
    weight: 1 / scored.length,
    masked: score.masked === true,
    turns: score.turns ?? [],
  }));
  const batches = [
    [main, finalizeAgent(main, mainMembers, settingsOf(main), name, { duplicated: 0, dropped: 0 })] as const,
    ...subs.map((sub) => [sub, finalizeSubAgent(scored, sub, settingsOf(sub), name)] as const),
  ];
  return Object.fromEntries(batches.flatMap(([agent, finalized]) => (finalized ? [[agent, finalized]] : [])));
}

function finalizeSubAgent(
  scored: readonly (readonly [number, ScoredRollout])[],
  sub: AgentName,
  algorithm: AlgorithmConfig,
  name: StreamName,
): AgentBatch | undefined {
  const calls_K = scored.map(([, score]) => callsWithKnownReward(score, sub));
  const rolloutOf = (k: number) => scored[k]?.[0] ?? k;
  const alignment = align(
    calls_K.map((calls) => calls.length),
    algorithm.alignment,
    (k) => stream(...name, "alignment", sub, rolloutOf(k)),
  );
  const members = calls_K.flatMap((calls, k) =>
    calls.map(({ call, index }, i) => ({
      id: `${rolloutOf(k)}/${index}`,
      rollout: rolloutOf(k),
      reward: call.reward,
      weight: alignment.weights[k]?.[i] ?? 0,
      masked: call.masked === true,
      turns: call.turns ?? [],
    })),
  );
  const aligned = members.filter((member) => member.weight > 0);
  return finalizeAgent(sub, aligned, algorithm, name, alignment);
}

/**
 * The calls of a sub-agent whose reward is known, with their index among all its calls in the rollout. No judge has seen the answer of a masked
 * conversation, so `correct` of eq 5 is unknown for every call that it led to. If it is the main agent's, the rollout counts as having no calls.
 */
export function callsWithKnownReward(
  { masked, invocations }: ScoredRollout,
  sub: AgentName,
): { readonly call: ScoredInvocation; readonly index: number }[] {
  const calls = masked ? [] : (invocations[sub] ?? []);
  return calls.map((call, index) => ({ call, index })).filter(({ call }) => call.masked !== "caller");
}

/** Undefined if nothing is left to train on. A masked trajectory counts in mean and std; its share is redistributed to the others. */
function finalizeAgent(
  agent: AgentName,
  members: readonly Member[],
  algorithm: AlgorithmConfig,
  name: StreamName,
  { duplicated, dropped }: Pick<AgentBatch, "duplicated" | "dropped">,
): AgentBatch | undefined {
  const trained = members.map((member, i) => ({ ...member, i })).filter((member) => !member.masked);
  if (trained.length === 0) return undefined;
  const rewards_N = members.map((member) => member.reward);
  const weights_N = members.map((member) => member.weight);
  const { advantages_N, mean, std } = groupAdvantages(
    algorithm.shuffleAdvantages ? shuffled(rewards_N, stream(...name, "shuffle", agent)) : rewards_N,
    weights_N,
    algorithm,
    members.map((member) => member.rollout),
  );
  const turns_N = turnOffsets(
    members.map((member) => member.turns),
    weights_N,
    algorithm,
  );
  const total = trained.reduce((sum, member) => sum + member.weight, 0);
  return {
    trajectories: trained.map((member) => member.id),
    weights: compressed(trained.map((member) => member.weight / total)),
    advantages: trained.map((member) => toFloat32(advantages_N[member.i] ?? 0)),
    ...(algorithm.turnWeight > 0 && { turns: trained.map((member) => (turns_N[member.i] ?? []).map(toFloat32)) }),
    mean,
    std,
    duplicated,
    dropped,
  };
}

/** A single entry if all are the same, as in most groups: this keeps records small. `trajectoryWeights` expands it. */
function compressed(weights: readonly number[]): number[] {
  return weights.every((weight) => weight === weights[0]) ? weights.slice(0, 1) : [...weights];
}

/** Rounded to the 32-bit float that engines compute with, in the fewest digits that identify it (nine always suffice). */
function toFloat32(advantage: number): number {
  const float = Math.fround(advantage);
  const candidates = [6, 7, 8, 9].map((digits) => Number(float.toPrecision(digits)));
  return candidates.find((short) => Math.fround(short) === float) ?? float;
}

/** Shuffled before mean and std are computed. So, under equal weights, the same advantages go to other trajectories. */
function shuffled(rewards_N: readonly number[], random: Random): number[] {
  return random.choose(rewards_N.length, rewards_N.length).map((i) => rewards_N[i] ?? 0);
}

/** In rollout order: integer keys of an object are always enumerated in ascending order. */
function scoredRollouts(rollouts: GroupRecord["rollouts"]): (readonly [number, ScoredRollout])[] {
  return Object.entries(rollouts).flatMap(([k, score]) => ("excluded" in score ? [] : [[Number(k), score] as const]));
}
