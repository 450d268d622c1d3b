/** @file Lambda: starts a run. Invoked directly with a StartRun; idempotent. */
import { StartRun } from "../../core/contracts/messages.ts";
import { parse } from "../../core/contracts/parse.ts";
import { type EventHandler, lambda } from "../handler.ts";

export const handleEvent: EventHandler = (functions, event) =>
  functions.startRun(parse(StartRun, event, "start request", "config-invalid"));

export const handler = lambda("start-run", handleEvent);
