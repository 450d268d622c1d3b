/**
 * @file Lambda: scores a rollout, and finalizes its group if it was the last. Invoked through a queue when an outcome is written, or when
 * a tick sends its event again.
 */
import { type EventHandler, lambda, objectKeyOf } from "../handler.ts";

export const handleEvent: EventHandler = (functions, event) => functions.scoreRollout(objectKeyOf(event));

export const handler = lambda("score-rollout", handleEvent);
