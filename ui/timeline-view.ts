/** @file What the dashboard's server sends about a step's time: when each worker's engine sampled and trained. */
import * as z from "zod";

/** Start and end, in seconds since the timeline begins. */
const Interval = z.tuple([z.number(), z.number()]);

export const TimelineView = z.strictObject({
  /** The whole timeline. */
  seconds: z.number(),
  workers: z.array(
    z.strictObject({ worker: z.string(), agent: z.string(), sampling: z.array(Interval), training: z.array(Interval) }),
  ),
});
export type TimelineView = z.infer<typeof TimelineView>;
