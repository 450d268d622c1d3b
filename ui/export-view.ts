/** @file What an exported page holds: views of the API, by path. All groups of a step are in one view, as page 0, in order of their numbers. */
import * as z from "zod";

export const Export = z.strictObject({
  /** The page that is shown first. */
  start: z.string(),
  /** The run's recipe, arm and seed. */
  about: z.string(),
  views: z.record(z.string(), z.json()),
});
export type Export = z.infer<typeof Export>;
