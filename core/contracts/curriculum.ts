/** @file The stages of a run's curriculum: when each begins, and how difficult its questions are. */
import * as z from "zod";
import type { ConfigFault } from "./config-fault.ts";

export const CurriculumStage = z.strictObject({
  from: z
    .number()
    .min(0)
    .lt(1)
    .exactOptional()
    .describe(
      "Share of the run after which the stage begins: of its steps or of its sampledTokens, whichever share is larger.",
    ),
  fromStep: z.int().nonnegative().exactOptional().describe("Instead of from: the first step of the stage."),
  levels: z.array(z.int().positive()).min(1).describe("Difficulty levels of its questions."),
});
export type CurriculumStage = z.infer<typeof CurriculumStage>;

/** What is wrong with the stages; at most one fault is reported. */
export function curriculumFaults(stages: readonly CurriculumStage[]): ConfigFault[] {
  const [share, step] = ["from (a share of the run)", "fromStep (a step)"];
  const unclear = stages.findIndex(({ from, fromStep }) => (from === undefined) === (fromStep === undefined));
  if (unclear >= 0) return [[["curriculum", unclear], `set exactly one of ${share} and ${step}`]];
  if (new Set(stages.map(({ from }) => from === undefined)).size > 1) {
    return [[["curriculum"], `set ${share} or ${step}, the same one in every stage`]];
  }
  const starts = stages.map(({ from, fromStep = 0 }) => from ?? fromStep);
  if (starts[0] !== 0) return [[["curriculum", 0], "the first stage must start at 0"]];
  const outOfOrder = starts.findIndex((start, i) => i > 0 && start <= (starts[i - 1] ?? 0));
  return outOfOrder < 0 ? [] : [[["curriculum", outOfOrder], "must start after the stage before it"]];
}
