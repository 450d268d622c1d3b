/** @file Refuses configs whose records would not fit in the store. */
import type { AgentConfig } from "./agent-config.ts";
import type { AlgorithmConfig } from "./algorithm-config.ts";
import { algorithmOf } from "./algorithm-overrides.ts";
import {
  MAX_QUESTIONS_PER_STEP,
  MIN_ROLLOUTS_PER_QUESTION,
  maxRolloutsPerQuestion,
  type RewardedTurns,
} from "./bounds.ts";
import type { ConfigFault } from "./config-fault.ts";
import { delegationFaults, maxInvocations } from "./delegation.ts";
import type { RunnerConfig } from "./runner.ts";

interface Sized {
  readonly main: string;
  readonly agents: Readonly<Record<string, AgentConfig>>;
  readonly algorithm: AlgorithmConfig;
  readonly runner: RunnerConfig;
  readonly rolloutsPerQuestion: number;
  readonly questionsPerStep: number;
  readonly dynamicSampling: { readonly rounds: number };
}

/** Settings whose records would not fit in the store: a group's scores are one item, and so are a step's questions. */
export function sizeFaults(config: Sized): ConfigFault[] {
  const { rolloutsPerQuestion, questionsPerStep, dynamicSampling } = config;
  const faults: ConfigFault[] = [];
  const invocations = mostInvocations(config);
  const turns = rewardedTurns(config);
  const largest = maxRolloutsPerQuestion(invocations, turns);
  if (rolloutsPerQuestion > largest) {
    const calls = invocations > 0 ? `, each with up to ${invocations} invocations,` : "";
    const remedy = remedyFor(largest, MIN_ROLLOUTS_PER_QUESTION, limitsRemedy(config, invocations, turns));
    const message = `a group of ${rolloutsPerQuestion} rollouts${calls} does not fit in its record of 400 KB: ${remedy}`;
    faults.push([["rolloutsPerQuestion"], message]);
  }
  const rounds = 1 + dynamicSampling.rounds;
  const groups = questionsPerStep * rounds;
  if (groups > MAX_QUESTIONS_PER_STEP) {
    const what = rounds > 1 ? `${groups} questions, including replacements,` : `${groups} questions`;
    const most = Math.floor(MAX_QUESTIONS_PER_STEP / rounds);
    const remedy = remedyFor(most, 1, rounds > 1 ? "lower dynamicSampling.rounds" : undefined);
    const message = `a step of up to ${what} does not fit in its record of 400 KB: ${remedy}`;
    faults.push([["questionsPerStep"], message]);
  }
  return faults;
}

/** What to do about a setting that is too large. `most` fits; below `least` the setting is invalid. */
function remedyFor(most: number, least: number, other: string | undefined): string {
  return [...(most < least ? [] : [`set it to at most ${most}`]), ...(other === undefined ? [] : [other])].join(
    ", or ",
  );
}

function limitsRemedy({ main, agents }: Sized, invocations: number, turns: RewardedTurns): string | undefined {
  const callers = Object.keys(agents).filter((name) => (agents[name]?.delegates.length ?? 0) > 0);
  if (invocations > 0) return `lower limits.turns or limits.calls of '${callers.join("' or '")}'`;
  return turns.main > 0 ? `lower limits.turns of '${main}'` : undefined;
}

function rewardedTurns({ main, agents, algorithm }: Sized): RewardedTurns {
  const turnsOf = (name: string) => {
    const agent = agents[name];
    return agent?.trained && algorithmOf({ algorithm, agents }, name).turnWeight > 0 ? agent.limits.turns : 0;
  };
  const subs = Object.keys(agents).filter((name) => name !== main);
  return { main: turnsOf(main), sub: Math.max(0, ...subs.map(turnsOf)) };
}

/** An upper bound on the invocations of one rollout; 0 for an invalid team. */
function mostInvocations({ main, agents, runner }: Sized): number {
  if (delegationFaults({ main, agents }).length > 0) return 0;
  if (runner === "native") return maxInvocations(agents, main);
  // The gateway limits the conversations of each sub-agent, not their sum.
  const { limits, delegates = [] } = agents[main] ?? {};
  return limits ? limits.turns * limits.calls * delegates.length : 0;
}
