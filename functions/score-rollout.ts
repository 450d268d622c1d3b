/** @file Lambda: scores a rollout, and finalizes its group if it was the last. Called by the event of an outcome, through a queue. */
import { type Answer, lambda, objectKeyOf } from "./handler.ts";

export const answer: Answer = (functions, event) => functions.scoreRollout(objectKeyOf(event));

export const handler = lambda("score-rollout", answer);
