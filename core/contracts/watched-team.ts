/** @file `mgrpo eval --watch … --team <file>`: the team in which a watched checkpoint is evaluated, and the record of its score. */
import * as z from "zod";
import { Arm } from "./config.ts";
import { AgentName } from "./names.ts";
import { EvaluationScore } from "./records.ts";

export const WatchedTeam = z.strictObject({
  recipe: z.string().min(1),
  arm: Arm.default("mgrpo"),
  seed: z.int().nonnegative().default(1),
  /** The agent whose checkpoints are watched. */
  agent: AgentName,
  /** Models of the other agents. Default: the recipe's. */
  models: z.record(AgentName, z.string().min(1)).default({}),
  /** Settings of the run config, in the form of `--set`. */
  set: z.array(z.string()).default([]),
});
export type WatchedTeam = z.infer<typeof WatchedTeam>;

/** A checkpoint's score on one suite, in a file named after the job. A job with a file is not evaluated again. */
export const WatchedEvaluation = EvaluationScore.extend({
  kind: z.literal("evaluation"),
  checkpoint: z.string(),
  agent: AgentName,
  job: z.string(),
  suite: z.string(),
});
export type WatchedEvaluation = z.infer<typeof WatchedEvaluation>;
