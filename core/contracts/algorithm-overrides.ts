/** @file Settings of the algorithm that an agent can override, and checks for settings that contradict others or would be ignored. */
import * as z from "zod";
import {
  type AlgorithmConfig,
  AlgorithmSettings,
  CLIP_RANGES,
  MAX_ALIGNED,
  MainReward,
  SubReward,
} from "./algorithm-config.ts";
import type { ConfigFault } from "./config-fault.ts";

const { turnWeight, ratio, policyLoss, clipLow, clipHigh, entropy, tisCap, ratioMask, overlongPenalty } =
  AlgorithmSettings.shape;

const CLIP_RANGE_IF_ABSENT = "the default of its own ratio if that is set, otherwise as in algorithm";
const NO_KL = "does nothing at kl.coefficient 0: remove it, or set kl.coefficient";

/** The optional override of a setting: its schema without a default. `absent`: the value that holds without an override. */
function own<S extends z.ZodType>(setting: { unwrap(): S }, what: string, absent = "as in algorithm") {
  return setting.unwrap().exactOptional().describe(`${what} of this agent. Absent: ${absent}.`);
}

/** Overrides of `algorithm` for one agent. */
export const AlgorithmOverrides = z.strictObject({
  mainReward: own(MainReward.optional(), "Main-agent reward"),
  subReward: own(SubReward.optional(), "Sub-agent reward"),
  alignment: z
    .strictObject({
      d: z.int().positive().max(MAX_ALIGNED).describe("Target number of this sub-agent's trajectories per rollout."),
    })
    .exactOptional()
    .describe("Alignment of this sub-agent's trajectories. Absent: as in algorithm."),
  turnWeight: own(turnWeight, "Weight of turn-level advantages"),
  ratio: own(ratio, "Granularity of the importance ratio"),
  policyLoss: own(policyLoss, "Form of the policy term"),
  clipLow: own(clipLow, "Lower clip range", CLIP_RANGE_IF_ABSENT),
  clipHigh: own(clipHigh, "Upper clip range", CLIP_RANGE_IF_ABSENT),
  entropy: own(entropy, "Entropy bonus"),
  tisCap: own(tisCap, "Cap of truncated importance sampling"),
  ratioMask: own(ratioMask, "Mask of extreme ratios"),
  overlongPenalty: own(overlongPenalty, "Penalty for conversations near the token limit"),
});
export type AlgorithmOverrides = z.infer<typeof AlgorithmOverrides>;

interface Overridable {
  readonly algorithm?: AlgorithmOverrides;
}

interface TeamMember extends Overridable {
  readonly policy: string;
  readonly trained: boolean;
  readonly limits: { readonly contextTokens: number };
}

interface OverridableTeam {
  readonly main: string;
  readonly staleness: number;
  readonly algorithm: AlgorithmConfig;
  readonly agents: Readonly<Record<string, TeamMember>>;
}

/** The settings of the algorithm for one agent: the run's, overridden by its own. Overriding `ratio` brings that ratio's default clip range. */
export function algorithmOf(
  {
    algorithm,
    agents,
  }: { readonly algorithm: AlgorithmConfig; readonly agents: Readonly<Record<string, Overridable>> },
  agent: string,
): AlgorithmConfig {
  const { alignment, ...overrides } = agents[agent]?.algorithm ?? {};
  const range = overrides.ratio === undefined ? {} : CLIP_RANGES[overrides.ratio];
  return { ...algorithm, ...range, ...overrides, alignment: { ...algorithm.alignment, ...alignment } };
}

/** Settings of the algorithm that contradict others, or would be ignored: path and message. */
export function algorithmFaults(team: OverridableTeam): ConfigFault[] {
  const { kl, minibatches, epochs } = team.algorithm;
  const { coefficient, refreshEvery } = kl;
  const faults: ConfigFault[] = Object.keys(team.agents).flatMap((name) => [
    ...overrideFaults(team, name),
    ...agentFaults(team, name),
    ...ratioFaults(team, name),
  ]);
  faults.push(...stalenessFaults(team), ...controlFaults(team), ...rewardKlFaults(team.algorithm));
  if (refreshEvery !== undefined && coefficient === 0) {
    faults.push([["algorithm", "kl", "refreshEvery"], NO_KL]);
  }
  if (refreshEvery === 1 && coefficient > 0 && (kl.in === "reward" || minibatches * epochs === 1)) {
    const cause =
      kl.in === "reward"
        ? "in the reward, the penalty is that of the version before the step, which is the reference"
        : "with one optimizer step per batch, the reference is the version that is trained";
    faults.push([["algorithm", "kl", "refreshEvery"], `${cause}, so the penalty is 0: set it to 2 or more`]);
  }
  return faults;
}

function controlFaults(team: OverridableTeam): ConfigFault[] {
  if (!team.algorithm.shuffleAdvantages) return [];
  const message = "the control would learn from turn rewards, which are not shuffled: set it to 0";
  const withTurns = Object.keys(team.agents).filter((name) => algorithmOf(team, name).turnWeight > 0);
  return withTurns.slice(0, 1).map((name) => [pathOf(team, name, "turnWeight"), message]);
}

function rewardKlFaults({ kl: { coefficient, estimator, in: place } }: AlgorithmConfig): ConfigFault[] {
  if (place !== "reward") return [];
  const path = (setting: string) => ["algorithm", "kl", setting];
  if (coefficient === 0) return [[path("in"), NO_KL]];
  if (estimator === "k1") return [];
  const message = `as a reward, ${estimator} gives a biased gradient of the KL divergence; that of k1 is unbiased: set it to k1`;
  return [[path("estimator"), message]];
}

/** Where the value that holds for an agent is set. */
function pathOf({ agents }: OverridableTeam, agent: string, setting: keyof AlgorithmOverrides): string[] {
  const isOwn = agents[agent]?.algorithm?.[setting] !== undefined;
  return isOwn ? ["agents", agent, "algorithm", setting] : ["algorithm", setting];
}

function overrideFaults({ main, agents }: OverridableTeam, name: string): ConfigFault[] {
  const { mainReward: ofMain, subReward: ofSub, alignment } = agents[name]?.algorithm ?? {};
  const path = (setting: string) => ["agents", name, "algorithm", setting];
  const faults: ConfigFault[] = [];
  if (name === main && ofSub) faults.push([path("subReward"), "does nothing for the main agent: set mainReward"]);
  if (name === main && alignment) faults.push([path("alignment"), "the main agent is not aligned: remove it"]);
  if (name !== main && ofMain) faults.push([path("mainReward"), "does nothing for a sub-agent: set subReward"]);
  return faults;
}

function agentFaults(team: OverridableTeam, name: string): ConfigFault[] {
  const { policy, trained, limits } = team.agents[name] as TeamMember;
  if (!trained) return [];
  const { overlongPenalty: penalty, entropy: bonus, ratioMask: mask } = algorithmOf(team, name);
  const faults: ConfigFault[] = [];
  if (mask !== null && (mask.low > 1 || mask.high < 1)) {
    const message = `it masks a ratio of 1, that of an on-policy token: set low (${mask.low}) to at most 1, and high (${mask.high}) to at least 1`;
    faults.push([pathOf(team, name, "ratioMask"), message]);
  }
  if (bonus !== null && policy.startsWith("tinker:")) {
    const message = `agent '${name}' is on a Tinker server, which returns no entropies to train on: set it to null`;
    faults.push([pathOf(team, name, "entropy"), message]);
  }
  if (penalty !== null && penalty.bufferTokens >= limits.contextTokens) {
    const message = `agents.${name}.limits.contextTokens is ${limits.contextTokens}: set less than that, or raise it`;
    faults.push([[...pathOf(team, name, "overlongPenalty"), "bufferTokens"], message]);
  }
  return faults;
}

/** A sequence's ratio has one gradient for all of its tokens: what is weighted or rewarded token by token needs ratios of tokens. */
function ratioFaults(team: OverridableTeam, name: string): ConfigFault[] {
  const { policyLoss, ratio, turnWeight, kl } = algorithmOf(team, name);
  if (!team.agents[name]?.trained || ratio === "token") return [];
  const faults: ConfigFault[] = [];
  if (policyLoss.kind === "cispo") {
    const message = `cispo weights each token of '${name}' by its own ratio, not by '${ratio}': set ratio to token`;
    faults.push([pathOf(team, name, "policyLoss"), message]);
  }
  if (turnWeight > 0) {
    const message = `ratio '${ratio}' spreads each turn's advantage over all tokens of '${name}': set ratio to token, or turnWeight to 0`;
    faults.push([pathOf(team, name, "turnWeight"), message]);
  }
  if (kl.in === "reward" && kl.coefficient > 0) {
    const message = `ratio '${ratio}' spreads each token's penalty over all tokens of '${name}': set ratio to token, or kl.in to loss`;
    faults.push([["algorithm", "kl", "in"], message]);
  }
  return faults;
}

/** Without a correction, stale rollouts bias the gradient: the bias grows with the learning rate and their age (arXiv 2607.01083). */
function stalenessFaults(team: OverridableTeam): ConfigFault[] {
  if (team.staleness === 0) return [];
  const uncorrected = Object.keys(team.agents).filter((name) => {
    const { tisCap, ratioMask } = algorithmOf(team, name);
    return team.agents[name]?.trained && tisCap === null && ratioMask === null;
  });
  if (uncorrected.length === 0) return [];
  const names = uncorrected.map((name) => `'${name}'`).join(" and ");
  const message = `at ${team.staleness}, ${names} would train on rollouts of older versions without a correction: set algorithm.tisCap=2, or algorithm.ratioMask (docs/staleness.md)`;
  return [[["staleness"], message]];
}
