/** @file Lambda: scores a rollout, and finalizes its group if it was the last. Called by the event of an outcome, through a queue. */
import { type EventHandler, lambda, objectKeyOf } from "./handler.ts";

export const handleEvent: EventHandler = (functions, event) => functions.scoreRollout(objectKeyOf(event));

export const handler = lambda("score-rollout", handleEvent);
