/** @file What the dashboard's server sends about compared runs: their arms, and the held-out scores of each. */
import * as z from "zod";
import { RunName } from "../core/contracts/names.ts";

const Estimate = z.strictObject({ value: z.number(), low: z.number(), high: z.number() });
export type Estimate = z.infer<typeof Estimate>;

/** What was measured of an arm on one suite, with 95 % intervals. An estimate is null if nothing was counted. */
export const Measured = z.strictObject({
  suite: z.string(),
  temperature: z.number(),
  before: Estimate.nullable(),
  after: Estimate.nullable(),
  /** After minus before. */
  gain: Estimate.nullable(),
  /** After, minus the first arm's after, over the seeds that both have. Null for the first arm. */
  againstFirst: Estimate.nullable(),
});
export type Measured = z.infer<typeof Measured>;

/** Runs of one config that differ in their seeds alone. */
export const ComparedArm = z.strictObject({
  label: z.string(),
  runs: z.array(RunName),
  measured: z.array(Measured),
});
export type ComparedArm = z.infer<typeof ComparedArm>;

export const CompareView = z.strictObject({
  arms: z.array(ComparedArm),
  /** Why their scores cannot be compared; null if they can. */
  refusal: z.string().nullable(),
});
export type CompareView = z.infer<typeof CompareView>;
