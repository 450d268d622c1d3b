/** @file What each agent would train on in a group: its branches, tokens, rewards and advantages. Pure. */
import { algorithmOf } from "../../core/contracts/algorithm-overrides.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { AgentBatch, GroupRecord } from "../../core/contracts/records.ts";
import {
  type AnyTrajectory,
  type FinishedOutcome,
  mainTrajectories,
  sampledTokens,
} from "../../core/contracts/rollout.ts";
import { hasGradient, lossTerms } from "../../core/mgrpo/batch.ts";
import { sum } from "../../core/statistics.ts";
import { entropyCoefficientAt } from "../../core/training/entropy-schedule.ts";
import type { StoredRollout } from "../conversations.ts";
import type { TriedGroup } from "./rollouts.ts";

export interface AgentShare {
  readonly agent: string;
  /** Whether the config trains it. */
  readonly trained: boolean;
  readonly branches: number;
  readonly sampledTokens: number;
  /** One per scored rollout of the main agent, or per scored invocation of a sub-agent. */
  readonly rewards: readonly number[];
  /** One per reward; null: not trained on. */
  readonly advantages: readonly (number | null)[];
  /** Sampled tokens that would have a gradient. The copies that alignment adds are weights, not further tokens. */
  readonly trainedTokens: number;
}

/** What has one reward: a rollout of the main agent, or an invocation of a sub-agent. */
interface Unit {
  /** As in `AgentBatch.trajectories`. */
  readonly id: number | string;
  readonly reward: number;
  readonly tokens: number;
}

export function agentShares(
  config: Pick<RunConfig, "agents" | "main" | "algorithm">,
  { group, rollouts }: Pick<TriedGroup, "group" | "rollouts">,
): AgentShare[] {
  return Object.entries(config.agents).map(([agent, { trained }]) => {
    const isMain = agent === config.main;
    const trajectories = rollouts.flatMap((rollout) => (isMain ? mainBranches(rollout) : subBranches(rollout, agent)));
    const units = isMain ? mainUnits(group, rollouts) : subUnits(group, rollouts, agent);
    const batch = group.finalized[agent];
    return {
      agent,
      trained,
      branches: trajectories.length,
      sampledTokens: sum(trajectories.map(sampledTokens)),
      rewards: units.map(({ reward }) => reward),
      advantages: units.map(({ id }) => batch?.advantages[batch.trajectories.indexOf(id)] ?? null),
      trainedTokens: trained && batch ? tokensWithGradient(batch, units, algorithmOf(config, agent)) : 0,
    };
  });
}

/** Branches in which the main agent generated something. */
const mainBranches = ({ outcome }: StoredRollout): AnyTrajectory[] =>
  outcome.status === "finished" ? mainTrajectories(outcome).filter((one) => sampledTokens(one) > 0) : [];

const subBranches = ({ invocations }: StoredRollout, agent: string): AnyTrajectory[] =>
  [...invocations.values()].filter(({ request }) => request.agent === agent).map(({ trajectory }) => trajectory);

function mainUnits(group: GroupRecord, rollouts: readonly StoredRollout[]): Unit[] {
  return rollouts.flatMap(({ outcome }, k) => {
    const score = group.rollouts[k];
    if (!score || "excluded" in score || outcome.status === "failed") return [];
    return [{ id: k, reward: score.reward, tokens: tokensOf(outcome) }];
  });
}

const tokensOf = (outcome: FinishedOutcome) => sum(mainTrajectories(outcome).map(sampledTokens));

function subUnits(group: GroupRecord, rollouts: readonly StoredRollout[], agent: string): Unit[] {
  return rollouts.flatMap(({ invocations }, k) => {
    const score = group.rollouts[k];
    if (!score || "excluded" in score) return [];
    return (score.invocations[agent] ?? []).map(({ id, reward }, i) => {
      const trajectory = invocations.get(id)?.trajectory;
      return { id: `${k}/${i}`, reward, tokens: trajectory ? sampledTokens(trajectory) : 0 };
    });
  });
}

/** The sampled tokens that have a gradient in the first step of a run, where the schedule of an entropy bonus may begin at 0. */
function tokensWithGradient(batch: AgentBatch, units: readonly Unit[], algorithm: RunConfig["algorithm"]): number {
  const tokens_N = batch.trajectories.map((id) => units.find((unit) => unit.id === id)?.tokens ?? 0);
  const terms = lossTerms(batch, tokens_N, algorithm);
  const initial = entropyCoefficientAt(algorithm.entropy, 0) === 0 ? { ...algorithm, entropy: null } : algorithm;
  return sum(tokens_N.filter((_, i) => terms[i] && hasGradient(terms[i], initial)));
}
