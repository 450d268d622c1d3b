/**
 * @file What workers measure in addition to their records, for display only: nothing that is trained, scored or hashed depends on it, and a
 * run without it is complete. Each writer stores one object per step: it is lost if the writer is killed, and expires with the conversations.
 */
import * as z from "zod";
import { RunName, Step } from "./names.ts";
import type { CallPath, RolloutAddress } from "./rollout.ts";

/** Seconds that one turn took: to sample it, and to answer each of its calls, which run concurrently. */
export const TurnLatency = z.strictObject({ sampling: z.number(), calls: z.array(z.number()) });
export type TurnLatency = z.infer<typeof TurnLatency>;

/** Start and end, in milliseconds since 1970 by the worker's clock. */
export const BusyInterval = z.tuple([z.number(), z.number()]);
export type BusyInterval = z.infer<typeof BusyInterval>;

/** What one worker did in one step. */
export const StepTelemetry = z.strictObject({
  run: RunName,
  step: Step,
  worker: z.string(),
  /** `*`: the whole team. */
  agent: z.string(),
  /** When calls to its engine were in flight while the run was at this step. Ascending, and disjoint per kind. */
  sampling: z.array(BusyInterval),
  training: z.array(BusyInterval),
  /** The turns of the step's training conversations that it ran, by `latencyName`. */
  conversations: z.record(z.string(), z.array(TurnLatency)),
});
export type StepTelemetry = z.infer<typeof StepTelemetry>;

export const latencyName = ({ group, rollout }: Pick<RolloutAddress, "group" | "rollout">, path: CallPath): string =>
  [group, rollout, ...path].join("/");

/** What a trainer computed about one trajectory. A = its action tokens. */
export interface TrainedTokens {
  /**
   * The trainer's log-probs before the step's first update; if the objective is `clipped-token` and the step has several minibatches, those of
   * the trajectory's first pass.
   */
  readonly logProbs_A: Float32Array;
  /** Ascending indices of the action tokens that were clipped in any pass. */
  readonly clipped: readonly number[];
}

/** @param object index of a rollout of the group, or id of an invocation. `branch` 0: its first or only conversation. */
export const trajectoryName = (group: number, object: number | string, branch: number): string =>
  `${typeof object === "number" ? `${group}/${object}` : object}#${branch}`;
