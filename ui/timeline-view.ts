/** @file What the dashboard's server sends about a step's time: when each worker's engine sampled and trained. */
import * as z from "zod";

/** Start and end, in seconds since the start of the timeline. */
const Interval = z.tuple([z.number(), z.number()]);

export const TimelineView = z.strictObject({
  /** Length of the timeline. */
  seconds: z.number(),
  workers: z.array(
    z.strictObject({ worker: z.string(), agent: z.string(), sampling: z.array(Interval), training: z.array(Interval) }),
  ),
});
export type TimelineView = z.infer<typeof TimelineView>;
