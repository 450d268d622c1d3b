/**
 * @file The summary of a step, from the scores of its groups and the manifests that closed it. A pure function, so that the live table, the
 * JSON Lines, the report and a resumed run agree.
 */
import * as z from "zod";
import { AgentStats, type Manifest, TrainingStats, WorkerSeconds } from "../contracts/checkpoint.ts";
import type { RunConfig } from "../contracts/config.ts";
import { JudgeCost, totalCost } from "../contracts/judge.ts";
import { AgentName, Step } from "../contracts/names.ts";
import type { GroupRecord, ScoredRollout, StepRecord } from "../contracts/records.ts";
import { agentsOfPolicy } from "../contracts/shared-policy.ts";
import { hasSignal } from "../mgrpo/batch.ts";
import { callsWithKnownReward } from "../mgrpo/finalize.ts";
import { mean, sum } from "../statistics.ts";
import { ageOf, countSampledTokens } from "../training/step-plan.ts";

export const StepSummary = z.strictObject({
  step: Step,
  /** Wall-clock seconds; null if the process that makes the summary did not see the step close. */
  seconds: z.number().nullable(),
  /** Dollars that the whole run had cost when the step closed. Absent if `seconds` is null. */
  usd: z.number().exactOptional(),
  /** Agent -> mean reward (eq 4, eq 5) of its rollouts or invocations; null if none counted. Unknown rewards do not count (`callsWithKnownReward`). */
  reward: z.record(AgentName, z.number().nullable()),
  /** Mean correctness of the counted rollouts, and the share that was well formed. Both are 0 if none counted: nothing was measured then. */
  correct: z.number(),
  wellFormed: z.number(),
  rollouts: z.int(),
  /** Tokens sampled by all agents in the counted rollouts, including frozen agents and dropped or masked trajectories. */
  sampledTokens: z.int(),
  /** Rollouts lost to infrastructure or judges: excluded from every mean and batch. */
  excluded: z.int(),
  /** The cost of judging the counted rollouts, if the judges are models. */
  judged: JudgeCost.exactOptional(),
  groups: z.int(),
  /** Groups from which the main agent learns nothing (`hasSignal`): in most, its rewards and those of its turns do not differ. */
  zeroVariance: z.int(),
  /** Sub-agent -> histogram of d_k: entry i counts the rollouts that called it i times. */
  calls: z.record(AgentName, z.array(z.int())),
  /** Per sub-agent, the copies that alignment added, and the invocations that it dropped. */
  duplicated: z.record(AgentName, z.int()),
  dropped: z.record(AgentName, z.int()),
  /** Per trained agent, by how many versions its sampler was behind its trainer. Absent: none was behind. */
  age: z.record(AgentName, z.int()).exactOptional(),
  /** Per trained agent; null if it had nothing to learn from. Of agents that share a policy, each agent's part. */
  training: z.record(AgentName, z.union([AgentStats, TrainingStats]).nullable()),
  /** Owner of a shared policy -> the norm of its whole gradient. */
  shared: z.record(AgentName, z.strictObject({ gradientNorm: z.number() })).exactOptional(),
  /** Owner of a trained policy -> the time of the worker that trained it. */
  workers: z.record(AgentName, WorkerSeconds),
  /** Sampled tokens in the batches of all agents, those without a gradient included, per wall-clock second. */
  tokensPerSecond: z.number().nullable(),
});
export type StepSummary = z.infer<typeof StepSummary>;

export function summarizeStep(
  config: RunConfig,
  step: StepRecord,
  groups: readonly GroupRecord[],
  manifests: ReadonlyMap<string, Manifest>,
  seconds: number | null,
): StepSummary {
  const scores = groups.flatMap((group) => Object.values(group.rollouts));
  const counted = scores.filter((score): score is ScoredRollout => !("excluded" in score));
  const subs = Object.keys(config.agents).filter((name) => name !== config.main);
  const perSub = <T>(of: (sub: string) => T) => Object.fromEntries(subs.map((sub) => [sub, of(sub)]));
  const finalized = (sub: string, field: "duplicated" | "dropped") =>
    sum(groups.map((group) => group.finalized[sub]?.[field] ?? 0));
  const judged = totalCost(counted.flatMap((score) => score.judged ?? []));
  const actionTokens = sum([...manifests.values()].map((manifest) => manifest.stats?.actionTokens ?? 0));
  return {
    step: step.step,
    seconds,
    reward: {
      [config.main]: meanOrNull(counted.map((score) => score.reward)),
      ...perSub((sub) =>
        meanOrNull(counted.flatMap((score) => callsWithKnownReward(score, sub).map(({ call }) => call.reward))),
      ),
    },
    correct: meanOrNull(counted.map((score) => score.correct)) ?? 0,
    wellFormed: meanOrNull(counted.map((score) => (score.wellFormed ? 1 : 0))) ?? 0,
    rollouts: counted.length,
    sampledTokens: countSampledTokens(groups),
    excluded: scores.length - counted.length,
    ...(judged && { judged }),
    groups: groups.length,
    zeroVariance: groups.filter((group) => !hasSignal(group.finalized[config.main])).length,
    calls: perSub((sub) => histogram(counted.map((score) => score.invocations[sub]?.length ?? 0))),
    duplicated: perSub((sub) => finalized(sub, "duplicated")),
    dropped: perSub((sub) => finalized(sub, "dropped")),
    ...agesOf(config, step),
    training: Object.fromEntries([...manifests].flatMap(([agent, manifest]) => trainingOf(config, agent, manifest))),
    ...sharedOf(manifests),
    workers: Object.fromEntries(
      [...manifests].flatMap(([agent, manifest]) => (manifest.seconds ? [[agent, manifest.seconds]] : [])),
    ),
    tokensPerSecond: seconds === null || seconds <= 0 ? null : actionTokens / seconds,
  };
}

/** The training statistics of the agents with the policy of `owner`. */
function trainingOf(
  { agents }: RunConfig,
  owner: string,
  { stats, roles }: Manifest,
): [string, AgentStats | TrainingStats | null][] {
  return roles ? agentsOfPolicy(agents, owner).map((agent) => [agent, roles[agent] ?? null]) : [[owner, stats]];
}

function agesOf(config: RunConfig, step: StepRecord): Pick<StepSummary, "age"> {
  const trained = Object.entries(config.agents).filter(([, agent]) => agent.trained);
  const ages = trained.map(([agent]) => [agent, ageOf(config, step, agent)] as const);
  return ages.some(([, age]) => age > 0) ? { age: Object.fromEntries(ages) } : {};
}

function sharedOf(manifests: ReadonlyMap<string, Manifest>): Pick<StepSummary, "shared"> {
  const shared = [...manifests].flatMap(([owner, { roles, stats }]) =>
    roles ? [[owner, { gradientNorm: stats?.gradientNorm ?? 0 }] as const] : [],
  );
  return shared.length > 0 ? { shared: Object.fromEntries(shared) } : {};
}

/** Entry i is the number of counts equal to i. */
function histogram(counts: readonly number[]): number[] {
  return Array.from({ length: Math.max(0, ...counts) + 1 }, (_, i) => counts.filter((count) => count === i).length);
}

const meanOrNull = (values: readonly number[]): number | null => (values.length === 0 ? null : mean(values));
