/** @file Lambda: moves runs on. Called by the clock (all runs), by the event of a new manifest (its run), or directly with `{ run }`. */
import { z } from "zod";
import { TickRequest } from "../core/contracts/messages.ts";
import { lambda, objectKeyOf } from "./handler.ts";

const Clock = z.object({ "detail-type": z.literal("Scheduled Event") });

export const handler = lambda("tick", (functions, event) => {
  if (Clock.safeParse(event).success) return functions.tickAll();
  const direct = TickRequest.safeParse(event);
  return direct.success ? functions.tick(direct.data) : functions.manifestCreated(objectKeyOf(event));
});
