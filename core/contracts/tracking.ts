/** @file The trackers that a run's metrics go to. */
import * as z from "zod";

/** W&B has no maintained client for Node, so its name is refused with what to do instead, not as an unknown tracker. */
const WANDB =
  "wandb has no maintained client for JavaScript: track tensorboard, and W&B imports its files with `wandb sync runs/<run>/tensorboard`; for traces, track otlp (docs/trackers.md)";

export const TrackerName = z.enum(["tensorboard", "mlflow", "otlp"], {
  error: ({ input }) => (input === "wandb" ? WANDB : undefined),
});
export type TrackerName = z.infer<typeof TrackerName>;
