/** @file The learning-rate schedule of a run (core/training/learning-rate.ts). */
import * as z from "zod";

/** After the warm-up: constant, or decaying to 0 at the end of the run, linearly or along a half cosine (SGDR, arXiv 1608.03983, without restarts). */
export const Schedule = z.enum(["constant", "linear", "cosine"]);

export const WarmupRatio = z
  .number()
  .min(0)
  .lt(1)
  .default(0)
  .describe("Share of the run over which the learning rate rises linearly to learningRate. 0: no warm-up.");
