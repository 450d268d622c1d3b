/** @file The inputs of functions (events, start and tick requests), and the result of an evaluation. */
import * as z from "zod";
import { Reason } from "./bounds.ts";
import { Part } from "./checkpoint.ts";
import { RunConfig } from "./config.ts";
import { JudgeCost } from "./judge.ts";
import { AgentName, RunName, Sha256, Step } from "./names.ts";
import { EvaluationScore } from "./records.ts";

/** The source of events that tick sends again: EventBridge lets only AWS itself send as `aws.s3`. */
export const REDELIVERY_SOURCE = "mgrpo";

/** EventBridge's S3 event "Object Created", as AWS and the local cloud send it, and as tick resends it if an outcome has no score. */
export const ObjectCreated = z.object({
  "detail-type": z.literal("Object Created"),
  source: z.literal(["aws.s3", REDELIVERY_SOURCE]),
  detail: z.object({
    bucket: z.object({ name: z.string() }),
    object: z.object({ key: z.string() }),
  }),
});
export type ObjectCreated = z.infer<typeof ObjectCreated>;

/** Asks start-run to start a run. In the store already: `questions.json`, and the base files without an `origin`, as parts. */
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
  /** Questions whose rollout was lost to infrastructure or a judge, listed once per lost rollout. Not counted in the score. */
  lost: z.array(z.string()),
  /** The distinct reasons of the losses. */
  reasons: z.array(Reason).exactOptional(),
  /** Each question's score over all runs, in the order of the question set. `n`: its rollouts that count, as in `EvaluationScore`. */
  questions: z.array(
    z.strictObject({
      question: z.string(),
      kind: z.string(),
      n: z.int().nonnegative(),
      correct: z.number().nonnegative(),
    }),
  ),
  /** The judge's cost, if the judge is a model. */
  judged: JudgeCost.exactOptional(),
  seconds: z.number(),
});
export type EvaluationResult = z.infer<typeof EvaluationResult>;
