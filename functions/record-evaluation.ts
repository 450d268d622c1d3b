/** @file Lambda: records an evaluation's score. Called by the event of its result. */
import { lambda, objectKeyOf } from "./handler.ts";

export const handler = lambda("record-evaluation", (functions, event) =>
  functions.recordEvaluation(objectKeyOf(event)),
);
