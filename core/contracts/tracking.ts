/** @file The trackers that a run's metrics go to. */
import * as z from "zod";

export const TrackerName = z.enum(["tensorboard", "mlflow"]);
export type TrackerName = z.infer<typeof TrackerName>;
