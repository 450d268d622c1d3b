/** @file What the dashboard's server sends about compared runs: their arms, and the held-out scores of each. */
import * as z from "zod";
import { RunName } from "../core/contracts/names.ts";
import type { Estimate } from "../core/training/bootstrap.ts";

const estimate: z.ZodType<Estimate> = z.strictObject({ value: z.number(), low: z.number(), high: z.number() });

/** An arm's scores on one suite, with 95% intervals. An estimate is null if nothing was counted. */
export const Measured = z.strictObject({
  suite: z.string(),
  temperature: z.number(),
  before: estimate.nullable(),
  after: estimate.nullable(),
  /** After minus before, over the runs and questions that have both. */
  gain: estimate.nullable(),
  /** After, minus the first arm's after, over the seeds and questions that both have scores for. Null for the first arm. */
  againstFirst: estimate.nullable(),
});
export type Measured = z.infer<typeof Measured>;

/** Runs of different seeds whose configs otherwise differ at most in name, number of steps and token budget. */
export const ComparedArm = z.strictObject({
  label: z.string(),
  runs: z.array(RunName),
  /** `scored`: how many of the runs have a score after training, which for an unfinished run is that of its newest evaluated team. */
  measured: z.array(Measured.extend({ scored: z.int() })),
});
export type ComparedArm = z.infer<typeof ComparedArm>;

export const CompareView = z.strictObject({
  arms: z.array(ComparedArm),
  /** For each suite whose scores cannot be compared: why not. */
  leftOut: z.array(z.string()),
});
export type CompareView = z.infer<typeof CompareView>;
