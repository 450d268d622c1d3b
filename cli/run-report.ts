/** @file `report.json`: what a run achieved and cost, for other programs. The schema is the contract: a report is checked before it is written. */
import * as z from "zod";
import { AlgorithmConfig } from "../core/contracts/algorithm-config.ts";
import { AlgorithmOverrides } from "../core/contracts/algorithm-overrides.ts";
import { WorkerSeconds } from "../core/contracts/checkpoint.ts";
import { Arm, type RunConfig } from "../core/contracts/config.ts";
import { AgentName, RunName, Sha256, Version } from "../core/contracts/names.ts";
import { parse } from "../core/contracts/parse.ts";
import { OptimizerProbe } from "../core/contracts/server-optimizer.ts";
import { SharedPolicy, sharedPolicies } from "../core/contracts/shared-policy.ts";
import type { StoreWrites } from "../core/contracts/store-writes.ts";
import { StepSummary } from "../core/monitoring/step-summary.ts";
import { HeldOut, heldOutScore, sortEvaluations, TeamEvaluation } from "../core/monitoring/team-evaluation.ts";
import { HeldOutGain } from "./held-out-gains.ts";
import { CaseStudyResult } from "./held-out-scores.ts";
import { runWarnings } from "./warnings.ts";

export const AgentResult = z.strictObject({
  version: Version,
  /** Folder in the Hugging Face layout. */
  checkpoint: z.string(),
  /** Identifies the exported weights (`weightsSha256` in gpu-workers/checkpoints.ts). */
  sha256: Sha256,
  /** Measurements of the server's own optimizer, if it trains the agent. */
  optimizer: OptimizerProbe.exactOptional(),
});
export type AgentResult = z.infer<typeof AgentResult>;

export const RunReport = z.strictObject({
  run: RunName,
  recipe: z.string(),
  arm: Arm,
  seed: z.int(),
  /** Closed steps: fewer than planned if `sampledTokens` ended the run. */
  steps: z.int(),
  /** Held-out questions answered correctly by the untrained and the trained team, above temperature 0 and greedily. */
  heldOut: z.strictObject({ before: HeldOut.nullable(), after: HeldOut.nullable() }),
  /** Share of held-out questions that the trained team answers correctly without its tools. */
  closedBook: z.number().nullable(),
  evaluations: z.array(TeamEvaluation),
  /** The gain in each open-book suite that was run before and after training; empty if the file does not list them. */
  gains: z.array(HeldOutGain).default([]),
  /** The recipe's case studies, before and after training. */
  caseStudies: z.array(CaseStudyResult),
  perStep: z.array(StepSummary),
  /** The warnings that the user got after steps; empty if the file does not list them. */
  warnings: z.array(z.string()).default([]),
  /** Per training rollout; claims, heartbeats and evaluations included. */
  store: z.strictObject({
    bytesPerRollout: z.number(),
    writesPerRollout: z.number(),
    writeUnitsPerRollout: z.number(),
  }),
  /**
   * Owner of a trained policy -> the seconds of the worker that trains it, as in `perStep`; also `scoring`, those of the functions, and `total`,
   * those of the whole run.
   */
  seconds: z.object({ scoring: z.number(), total: z.number() }).catchall(WorkerSeconds),
  agents: z.record(AgentName, AgentResult),
  /** The objective: ratio, clipping, alignment and so on. */
  algorithm: AlgorithmConfig,
  /** Agent that shares a policy -> the policy's owner, which may be this agent, and this agent's share of the policy's loss. */
  sharedPolicies: z.record(AgentName, SharedPolicy).default({}),
  /** Agent -> its own settings of the algorithm, where it has any. */
  algorithmOverrides: z.record(AgentName, AlgorithmOverrides).default({}),
});
export type RunReport = z.infer<typeof RunReport>;

export interface ReportInput {
  readonly config: RunConfig;
  readonly evaluations: readonly TeamEvaluation[];
  readonly gains: readonly HeldOutGain[];
  readonly caseStudies: readonly CaseStudyResult[];
  readonly perStep: readonly StepSummary[];
  readonly writes: StoreWrites;
  readonly scoringSeconds: number;
  readonly totalSeconds: number;
  readonly agents: Readonly<Record<string, AgentResult>>;
}

export function buildReport(input: ReportInput): RunReport {
  const { config, perStep, writes } = input;
  const evaluations = sortEvaluations(config, input.evaluations);
  const rollouts = perStep.reduce((total, step) => total + step.rollouts + step.excluded, 0);
  const perRollout = (amount: number) => (rollouts === 0 ? 0 : amount / rollouts);
  const steps = perStep.length;
  const timed = Object.keys(config.agents).filter((agent) => perStep.some(({ workers }) => workers[agent]));
  const closedBook = evaluations.find((one) => one.team === steps && one.closedBook && one.benchmark === undefined);
  const report = {
    run: config.run,
    recipe: config.recipe,
    arm: config.arm,
    seed: config.seed,
    steps,
    heldOut: { before: heldOutScore(evaluations, 0), after: heldOutScore(evaluations, steps) },
    closedBook: closedBook && closedBook.n > 0 ? closedBook.correct / closedBook.n : null,
    evaluations,
    gains: [...input.gains],
    caseStudies: [...input.caseStudies],
    perStep: [...perStep],
    warnings: runWarnings(config, perStep),
    store: {
      bytesPerRollout: perRollout(writes.bytes),
      writesPerRollout: perRollout(writes.requests),
      writeUnitsPerRollout: perRollout(writes.units),
    },
    seconds: {
      ...Object.fromEntries(timed.map((agent) => [agent, secondsOf(perStep, agent)])),
      scoring: input.scoringSeconds,
      total: input.totalSeconds,
    },
    agents: input.agents,
    sharedPolicies: sharedPolicies(config.agents),
    algorithm: config.algorithm,
    algorithmOverrides: Object.fromEntries(
      Object.entries(config.agents).flatMap(([name, { algorithm }]) => (algorithm ? [[name, algorithm]] : [])),
    ),
  };
  return parse(RunReport, report, `report of run '${config.run}'`);
}

function secondsOf(perStep: readonly StepSummary[], agent: string): WorkerSeconds {
  const total = { sampling: 0, training: 0, waiting: 0 };
  for (const { workers } of perStep) {
    total.sampling += workers[agent]?.sampling ?? 0;
    total.training += workers[agent]?.training ?? 0;
    total.waiting += workers[agent]?.waiting ?? 0;
  }
  return total;
}
