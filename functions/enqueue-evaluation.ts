/** @file Lambda: queues the evaluations of a team. Called by the event of a team manifest. */
import { lambda, objectKeyOf } from "./handler.ts";

export const handler = lambda("enqueue-evaluation", (functions, event) =>
  functions.enqueueEvaluation(objectKeyOf(event)),
);
