/**
 * @file The plan of a step: its questions, the one version of each agent that its rollouts are sampled from, and the agents that publish a
 * new version at its end. Training is synchronous: a trained agent's version is the number of closed steps.
 */
import type { RunConfig } from "../contracts/config.ts";
import { tableKeys } from "../contracts/keys.ts";
import type { Question } from "../contracts/question.ts";
import type { GroupRecord, StepRecord } from "../contracts/records.ts";
import { ownsPolicy } from "../contracts/shared-policy.ts";
import { hasSignal } from "../mgrpo/batch.ts";
import { drawQuestions, initialCurriculum, stageOf } from "./curriculum.ts";
import type { Insertion, StoreCommand } from "./store-commands.ts";
import { replaceGroups } from "./writes.ts";

/** The record of a new step. `previous`: the step before it, undefined for step 0. */
export function planStep(
  config: RunConfig,
  questions: readonly Question[],
  step: number,
  previous: StepRecord | undefined,
): StepRecord {
  const before = previous?.curriculum ?? initialCurriculum(config);
  const sampledBefore = previous ? previous.sampledBefore + previous.sampledTokens : 0;
  const stage = stageOf(config, { step, sampledBefore });
  const draw = drawQuestions(config, questions, stage, before, config.questionsPerStep);
  return {
    run: config.run,
    step,
    state: "open",
    groups: draw.questions,
    round: 0,
    policy: policyAt(config, step),
    trained: trainedAgents(config),
    sampledBefore,
    sampledTokens: 0,
    curriculum: draw.curriculum,
  };
}

/** Tokens that all agents sampled in the groups' rollouts. Lost rollouts do not count. */
export function countSampledTokens(groups: readonly GroupRecord[]): number {
  const scores = groups.flatMap(({ rollouts }) => Object.values(rollouts));
  return scores.reduce((sum, score) => sum + ("excluded" in score ? 0 : score.tokens), 0);
}

/** Whether the run ends with this step, by its number or by the tokens sampled so far. The step must be ready or closed. */
export function isLast({ steps, sampledTokens }: RunConfig, step: StepRecord): boolean {
  return step.step + 1 >= steps || (sampledTokens !== null && step.sampledBefore + step.sampledTokens >= sampledTokens);
}

/** The version of every agent after `closedSteps` steps. */
export function policyAt(config: RunConfig, closedSteps: number): Record<string, number> {
  return Object.fromEntries(
    Object.entries(config.agents).map(([name, { trained }]) => [name, trained ? closedSteps : 0]),
  );
}

/** The agents that learn, whoever has their weights. */
function learningAgents({ agents }: RunConfig): string[] {
  return Object.keys(agents).filter((name) => agents[name]?.trained);
}

/** The agents that publish versions: of agents that share a policy, its owner. */
export function trainedAgents(config: RunConfig): string[] {
  return learningAgents(config).filter((name) => ownsPolicy(config.agents, name));
}

/** The GROUP items of a step's groups at these indices. */
export function groupItems(config: RunConfig, step: StepRecord, indices: readonly number[]): Insertion[] {
  return indices.map((group) => {
    const record: GroupRecord = {
      run: step.run,
      step: step.step,
      group,
      questionId: step.groups[group] ?? "",
      rolloutsPerQuestion: config.rolloutsPerQuestion,
      state: "open",
      crashes: {},
      rollouts: {},
      finalized: {},
    };
    return { key: tableKeys.group(step.run, step.step, group), item: record };
  });
}

/** The agent's rewards are all the same, or fewer than 2 rollouts are left: it learns nothing from the group. */
function hasZeroVariance(group: GroupRecord, agent: string): boolean {
  return !hasSignal(group.finalized[agent]);
}

/**
 * Whether a finalized group counts in an agent's batch of its step. Under dynamic sampling only groups with variance in this agent's own
 * rewards do, so that a replaced group does not dilute its replacement. A group that teaches the main agent nothing may teach a sub-agent,
 * and vice versa. If none counts, the caller uses all groups, and every advantage is 0.
 */
export function countsInBatch(config: RunConfig, group: GroupRecord, agent: string): boolean {
  return config.dynamicSampling.rounds === 0 || !hasZeroVariance(group, agent);
}

/** Whether a group fills a place in the step: the main agent learns from it. If that is frozen, any trained agent does. */
function fillsPlace(config: RunConfig, group: GroupRecord): boolean {
  const trained = learningAgents(config);
  const learners = trained.includes(config.main) ? [config.main] : trained;
  return learners.some((agent) => !hasZeroVariance(group, agent));
}

/** One round of dynamic sampling, if rounds are left: a new question for each place that is not filled. */
export function replaceZeroVarianceGroups(
  config: RunConfig,
  questions: readonly Question[],
  step: StepRecord,
  finalized: readonly GroupRecord[],
): StoreCommand[] {
  if (step.round >= config.dynamicSampling.rounds) return [];
  const missing = config.questionsPerStep - finalized.filter((group) => fillsPlace(config, group)).length;
  if (missing <= 0) return [];
  const draw = drawQuestions(config, questions, stageOf(config, step), step.curriculum, missing);
  const after: StepRecord = {
    ...step,
    groups: [...step.groups, ...draw.questions],
    round: step.round + 1,
    curriculum: draw.curriculum,
  };
  return [{ kind: "update", change: replaceGroups(step, after) }];
}
