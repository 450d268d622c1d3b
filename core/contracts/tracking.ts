/** @file The trackers that a run's metrics go to. */
import * as z from "zod";

/** W&B has no maintained client for Node, so its name teaches the way that works instead of being unknown. */
const WANDB =
  "wandb has no maintained client for JavaScript: track tensorboard, and W&B imports its files with `wandb sync runs/<run>/tensorboard`; for traces, track otlp with Weave's receiver (docs/trackers.md)";

export const TrackerName = z.enum(["tensorboard", "mlflow", "otlp"], {
  error: ({ input }) => (input === "wandb" ? WANDB : undefined),
});
export type TrackerName = z.infer<typeof TrackerName>;
