/** @file Lambda: queues the evaluations of a team. Called by the event of a team manifest, through a queue. */
import { type EventHandler, lambda, objectKeyOf } from "./handler.ts";

export const handleEvent: EventHandler = (functions, event) => functions.enqueueEvaluation(objectKeyOf(event));

export const handler = lambda("enqueue-evaluation", handleEvent);
