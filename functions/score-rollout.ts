/** @file Lambda: scores a rollout, and seals its group if it was the last. Called by the event of an outcome, through a queue. */
import { lambda, objectKeyOf } from "./handler.ts";

export const handler = lambda("score-rollout", async (functions, event) => {
  const { key } = objectKeyOf(event);
  // The rule's wildcard also lets the outcomes of evaluations through, which nobody scores here.
  if (!/^runs\/[^/]+\/evaluations\//.test(key)) await functions.scoreRollout({ key });
});
