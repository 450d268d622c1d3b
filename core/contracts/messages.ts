/** @file What functions are called with and what evaluation reports: events, start requests, results. */
import * as z from "zod";
import { Part } from "./checkpoint.ts";
import { RunConfig } from "./config.ts";
import { JudgeCost } from "./judge.ts";
import { AgentName, RunName, Sha256, Step } from "./names.ts";
import { EvaluationScore } from "./records.ts";

/** EventBridge's S3 "Object Created", as AWS and the embedded cloud send it. */
export const ObjectCreated = z.object({
  "detail-type": z.literal("Object Created"),
  source: z.literal("aws.s3"),
  detail: z.object({
    bucket: z.object({ name: z.string() }),
    object: z.object({ key: z.string() }),
  }),
});
export type ObjectCreated = z.infer<typeof ObjectCreated>;

/** Asks start-run for a run. Base files and questions are already in the store, as parts and `questions.json`. */
export const StartRun = z.strictObject({
  config: RunConfig,
  questionsSha256: Sha256,
  bases: z.record(AgentName, z.record(z.string(), Part)),
});
export type StartRun = z.infer<typeof StartRun>;

export const TickRequest = z.strictObject({ run: RunName });
export type TickRequest = z.infer<typeof TickRequest>;

export const EvaluationResult = EvaluationScore.extend({
  run: RunName,
  job: z.string(),
  team: Step,
  suite: z.string(),
  /** Questions whose rollout was lost to infrastructure after all attempts: listed once per run that lost it, not counted. */
  lost: z.array(z.string()),
  /** Why, without repetitions. */
  reasons: z.array(z.string()).exactOptional(),
  /** Each question's score over all runs, in the order of the held-out set; `n` leaves out what was lost. */
  questions: z.array(
    z.strictObject({
      question: z.string(),
      kind: z.string(),
      n: z.int().nonnegative(),
      correct: z.number().nonnegative(),
    }),
  ),
  /** What its judge cost, where it is a model. */
  judged: JudgeCost.exactOptional(),
  seconds: z.number(),
});
export type EvaluationResult = z.infer<typeof EvaluationResult>;
