/**
 * @file The plan of a step: its questions, the one version of each agent that its rollouts are sampled from, and the agents that publish a
 * new version at its end. A trained agent's version is the number of closed steps; step s is sampled from version s - `staleness`, or version
 * 0 if that is negative, even if a newer one exists by then.
 *
 * Step s is planned once step s - `staleness` - 1 is ready, when later ones may still be open. So a plan is a function of the config, of what
 * never changes in the plan before it, and of that ready step: never of timing.
 */
import type { RunConfig } from "../contracts/config.ts";
import { tableKeys } from "../contracts/keys.ts";
import type { Question } from "../contracts/question.ts";
import type { AgentBatch, GroupRecord, StepRecord } from "../contracts/records.ts";
import { ownsPolicy } from "../contracts/shared-policy.ts";
import { hasSignal } from "../mgrpo/batch.ts";
import { drawQuestions, drawReserve, initialCurriculum, stageOf } from "./curriculum.ts";
import { dueTeamAfter } from "./evaluation.ts";
import type { Insertion, StoreCommand } from "./store-commands.ts";
import { replaceGroups } from "./writes.ts";

/** The steps that a plan is computed from. Undefined if before step 0. */
export interface PlanBasis {
  /** The step before. */
  readonly previous: StepRecord | undefined;
  /** The newest step that must be ready: `staleness` + 1 before. */
  readonly sampled: StepRecord | undefined;
}

/** The record of a new step. Undefined if the run ends before it, by its number of steps or by the tokens sampled so far. */
export function planStep(
  config: RunConfig,
  questions: readonly Question[],
  step: number,
  { previous, sampled }: PlanBasis,
): StepRecord | undefined {
  const sampledBefore = (previous?.sampledBefore ?? 0) + (sampled?.sampledTokens ?? 0);
  if (step >= config.steps || (config.sampledTokens !== null && sampledBefore >= config.sampledTokens))
    return undefined;
  const stage = stageOf(config, { step, sampledBefore });
  const before = previous?.curriculum ?? initialCurriculum(config);
  const dueTeam = dueTeamAfter(config, { step, sampledBefore }, previous);
  const { questionsPerStep, dynamicSampling } = config;
  const draw = drawQuestions(config, questions, stage, before, questionsPerStep, {
    reserve: dynamicSampling.rounds * questionsPerStep,
    ...(sampled?.curriculum.stage === stage && { returned: sampled.curriculum.reserve ?? [] }),
  });
  return {
    run: config.run,
    step,
    state: "open",
    groups: draw.questions,
    round: 0,
    policy: policyAt(config, Math.max(0, step - config.staleness)),
    trained: trainedAgents(config),
    sampledBefore,
    sampledTokens: 0,
    curriculum: draw.curriculum,
    ...(dueTeam !== undefined && { dueTeam }),
  };
}

/** Tokens that all agents sampled in the groups' rollouts. Lost rollouts do not count. */
export function countSampledTokens(groups: readonly GroupRecord[]): number {
  const scores = groups.flatMap(({ rollouts }) => Object.values(rollouts));
  return scores.reduce((sum, score) => sum + ("excluded" in score ? 0 : score.tokens), 0);
}

/** The version of every agent after `closedSteps` steps. */
export function policyAt(config: RunConfig, closedSteps: number): Record<string, number> {
  return Object.fromEntries(
    Object.entries(config.agents).map(([name, { trained }]) => [name, trained ? closedSteps : 0]),
  );
}

/** The version that a step produces of every trained agent: the number of closed steps after it. */
export const versionAfter = ({ step }: Pick<StepRecord, "step">): number => step + 1;

/** How many versions the policy that samples an agent's rollouts of a step lags behind the one trained on them. Of a frozen agent: 0. */
export function ageOf({ agents }: RunConfig, { step, policy }: StepRecord, agent: string): number {
  return agents[agent]?.trained ? step - (policy[agent] ?? 0) : 0;
}

/** The agents that are trained, with weights of their own or shared. */
export function learningAgents({ agents }: Pick<RunConfig, "agents">): string[] {
  return Object.keys(agents).filter((name) => agents[name]?.trained);
}

/** What an agent trains on in a group. Undefined for a frozen agent: groups are finalized for every agent, but its part is not trained on. */
export function trainedBatch(
  { agents }: Pick<RunConfig, "agents">,
  { finalized }: Pick<GroupRecord, "finalized">,
  agent: string,
): AgentBatch | undefined {
  return agents[agent]?.trained ? finalized[agent] : undefined;
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

/**
 * Whether a finalized group counts in an agent's batch of its step. Under dynamic sampling only groups that this agent learns from do, so
 * that a replaced group does not dilute its replacement. A group that teaches the main agent nothing may teach a sub-agent, and vice versa.
 * If none counts, the caller uses all groups, and every advantage is 0.
 */
export function countsInBatch(config: RunConfig, group: GroupRecord, agent: string): boolean {
  return config.dynamicSampling.rounds === 0 || hasSignal(group.finalized[agent]);
}

/** Whether a group fills a place in the step: the main agent learns from it, or, if that is frozen, any trained agent. */
function fillsPlace(config: RunConfig, group: GroupRecord): boolean {
  const trained = learningAgents(config);
  const learners = trained.includes(config.main) ? [config.main] : trained;
  return learners.some((agent) => hasSignal(group.finalized[agent]));
}

/** One round of dynamic sampling, if rounds are left: a question of the step's reserve for each place that is not filled. */
export function replaceZeroVarianceGroups(
  config: RunConfig,
  questions: readonly Question[],
  step: StepRecord,
  finalized: readonly GroupRecord[],
): StoreCommand[] {
  if (step.round >= config.dynamicSampling.rounds) return [];
  const missing = config.questionsPerStep - finalized.filter((group) => fillsPlace(config, group)).length;
  if (missing <= 0) return [];
  const draw = drawReserve(config, questions, step.curriculum, missing);
  const after: StepRecord = {
    ...step,
    groups: [...step.groups, ...draw.questions],
    round: step.round + 1,
    curriculum: draw.curriculum,
  };
  return [{ kind: "update", change: replaceGroups(step, after) }];
}
