/**
 * @file Lambda: moves runs on. Called by the clock (all runs; then fleets and clock follow them, and the alarms are told how things stand),
 * by the event of a new manifest (its run), or directly with `{ run }`.
 */
import { setTimeout as pause } from "node:timers/promises";
import * as z from "zod";
import { TickRequest } from "../core/contracts/messages.ts";
import { type Answer, lambda, objectKeyOf } from "./handler.ts";
import type { Functions } from "./protocol/functions.ts";
import { describeMove, describePulse } from "./report.ts";

const Clock = z.object({ "detail-type": z.literal("Scheduled Event") });

export const answer: Answer = (functions, event) => {
  if (Clock.safeParse(event).success) return tickAndSteer(functions);
  const direct = TickRequest.safeParse(event);
  return direct.success ? functions.tick(direct.data) : functions.manifestCreated(objectKeyOf(event));
};

export const handler = lambda("tick", answer);

/** Seconds after which fleets and alarms wait no longer: of the 60 that the function has. */
const PATIENCE_SECONDS = 40;

/** One run that fails, or waits for a judge that does not answer, must not silence the alarms of the others, nor keep machines running. */
async function tickAndSteer(functions: Functions): Promise<void> {
  const ticked = functions.tickAll();
  const patience = new AbortController();
  const { signal } = patience;
  await Promise.race([ticked.catch(() => {}), pause(PATIENCE_SECONDS * 1000, undefined, { signal }).catch(() => {})]);
  patience.abort();
  const { pulse, moves, failures } = await functions.steer();
  for (const line of [describePulse(pulse), ...moves.map(describeMove)])
    if (line !== undefined) process.stdout.write(`${line}\n`);
  await ticked;
  if (failures.length > 0) throw failures[0];
}
