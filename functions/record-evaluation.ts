/** @file Lambda: records an evaluation's score. Called by the event of its result, through a queue. */
import { type EventHandler, lambda, objectKeyOf } from "./handler.ts";

export const handleEvent: EventHandler = (functions, event) => functions.recordEvaluation(objectKeyOf(event));

export const handler = lambda("record-evaluation", handleEvent);
