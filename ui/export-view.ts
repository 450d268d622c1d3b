/** @file What an exported page holds: views of the API, by path. Of a step all groups are in one view, on page 0, in their own order. */
import * as z from "zod";

export const Export = z.strictObject({
  /** The page that is shown first. */
  start: z.string(),
  /** Of the run: its arm and seed. */
  about: z.string(),
  views: z.record(z.string(), z.json()),
});
export type Export = z.infer<typeof Export>;
