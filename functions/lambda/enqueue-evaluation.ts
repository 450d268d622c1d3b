/** @file Lambda: queues the evaluations of a team. Invoked through a queue when a team manifest is written. */
import { type EventHandler, lambda, objectKeyOf } from "../handler.ts";

export const handleEvent: EventHandler = (functions, event) => functions.enqueueEvaluation(objectKeyOf(event));

export const handler = lambda("enqueue-evaluation", handleEvent);
