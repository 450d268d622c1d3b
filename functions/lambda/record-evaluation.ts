/** @file Lambda: records an evaluation's score. Invoked through a queue when its result is written. */
import { type EventHandler, lambda, objectKeyOf } from "../handler.ts";

export const handleEvent: EventHandler = (functions, event) => functions.recordEvaluation(objectKeyOf(event));

export const handler = lambda("record-evaluation", handleEvent);
