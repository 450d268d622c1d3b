/** @file The trackers that a run's metrics go to. */
import * as z from "zod";

export const TrackerName = z.enum(["tensorboard", "mlflow", "otlp"]);
export type TrackerName = z.infer<typeof TrackerName>;
