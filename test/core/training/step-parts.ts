/** @file A step and its parts, for tests of the step reducer. */
import type { Manifest } from "../../../core/contracts/checkpoint.ts";
import type { RunConfig } from "../../../core/contracts/config.ts";
import type { GroupRecord, StepRecord } from "../../../core/contracts/records.ts";
import type { StepSnapshot } from "../../../core/training/step.ts";
import { type PlanBasis, planStep } from "../../../core/training/step-plan.ts";
import { questions, runRecord, teamConfig } from "../../fakes/scripted-team.ts";

export const config = teamConfig({ questionsPerStep: 2 });
export const run = runRecord();

/** What the plan of the step after `sampled` depends on, in a synchronous run. */
export const after = (sampled: StepRecord | undefined): PlanBasis => ({ previous: sampled, sampled });

/** The plan of a step; throws if the run ends before it. */
export function planned(runConfig: RunConfig, number: number, basis: PlanBasis): StepRecord {
  const record = planStep(runConfig, questions, number, basis);
  if (!record) throw new Error(`the run ends before step ${number}`);
  return record;
}

export const step0 = planned(config, 0, after(undefined));
export const step = planned(config, 1, after(step0));

export const base: StepSnapshot = {
  ...{ config, questions, run, steps: [step], planned: true, basis: after(undefined), complete: new Map() },
  ...{ manifests: new Map(), agents: [], expired: [] },
};

/** The part of a snapshot that holds the groups of a step. */
export const complete = (groups: readonly GroupRecord[], number = 1): Pick<StepSnapshot, "complete"> => ({
  complete: new Map([[number, { groups, earlier: [] }]]),
});

/** A published version, with a hash that depends on the agent alone. */
export const manifestOf = (agent: string, version: number) => ({
  manifest: { run: "test", agent, version, trained: true, files: {}, stats: null, seconds: null } satisfies Manifest,
  sha256: agent.charCodeAt(0).toString(16).repeat(32),
});

export const groupOf = (group: number, part: Partial<GroupRecord> = {}): GroupRecord => ({
  ...{ run: "test", step: 1, group, questionId: step.groups[group] ?? "", rolloutsPerQuestion: 3, state: "finalized" },
  ...{ claims: {}, crashes: {}, rollouts: {}, finalized: {} },
  ...part,
});
