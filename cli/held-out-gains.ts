/** @file What training changed on each suite of questions: the gain with its interval, and the counts by kind of question. Pure. */
import * as z from "zod";
import { differenceEstimate } from "../core/training/bootstrap.ts";
import { sumTallies } from "../core/training/confidence-interval.ts";
import { type HeldOutScores, pairedScores, type QuestionScore, StoredTally } from "./held-out-scores.ts";

/** The gain on one open-book suite that was evaluated before and after training. */
export const HeldOutGain = z.strictObject({
  suite: z.string(),
  temperature: z.number(),
  /**
   * The share of correct answers after training minus that before, paired by question: 0.31 is 31 points. Questions without a counted rollout
   * before or after training are left out of both shares.
   */
  gain: z.number(),
  /** 95% interval of the gain over questions. It holds for this run's team, and says nothing about other seeds. */
  interval: z.strictObject({ low: z.number(), high: z.number() }),
  kinds: z.record(z.string(), z.strictObject({ before: StoredTally, after: StoredTally })),
});
export type HeldOutGain = z.infer<typeof HeldOutGain>;

/** In the order of `scores`. `last`: the run's last team. A suite is left out if no question was counted both before and after training. */
export function heldOutGains(run: string, scores: readonly HeldOutScores[], last: number): HeldOutGain[] {
  if (last === 0) return [];
  const openBook = (team: number) => scores.filter((one) => one.team === team && !one.closedBook);
  return openBook(0).flatMap(({ suite, temperature, questions }) => {
    const after = openBook(last).find((one) => one.suite === suite);
    if (!after) return [];
    const estimate = differenceEstimate(...pairedScores([after.questions], [questions]), ["gain", run, suite]);
    if (!estimate) return [];
    const { value: gain, low, high } = estimate;
    return [{ suite, temperature, gain, interval: { low, high }, kinds: countsByKind(questions, after.questions) }];
  });
}

function countsByKind(before: readonly QuestionScore[], after: readonly QuestionScore[]): HeldOutGain["kinds"] {
  const kinds = [...new Set(before.map(({ kind }) => kind))];
  const count = (questions: readonly QuestionScore[], kind: string) =>
    sumTallies(questions.filter((one) => one.kind === kind));
  return Object.fromEntries(kinds.map((kind) => [kind, { before: count(before, kind), after: count(after, kind) }]));
}
