/**
 * @file Lambda: advances runs. Invoked by the schedule (for every run, then the fleets, the schedule and the alarms' metrics), through a queue when a
 * manifest is written (for its run), or directly with `{ run }`.
 */
import { setTimeout as pause } from "node:timers/promises";
import * as z from "zod";
import { TickRequest } from "../../core/contracts/messages.ts";
import type { Functions } from "../functions.ts";
import { type EventHandler, failureLine, lambda, objectKeyOf } from "../handler.ts";
import { capacityLine, metricsLines } from "../reconciling.ts";

const ClockEvent = z.object({ "detail-type": z.literal("Scheduled Event") });

export const handleEvent: EventHandler = (functions, event) => {
  if (ClockEvent.safeParse(event).success) return tickAndReconcile(functions);
  const direct = TickRequest.safeParse(event);
  return direct.success ? functions.tick(direct.data) : functions.manifestCreated(objectKeyOf(event));
};

export const handler = lambda("tick", handleEvent);

/** How long reconciling waits for the ticks; the function's limit is 60 s. */
const TICK_SECONDS = 40;

/**
 * A run that fails, or takes long, must not silence the alarms of the others, nor keep machines running. Rejects with the first failure and
 * logs the others; the first one too if the ticks take long, since a call that Lambda kills at its limit rejects with nothing.
 */
async function tickAndReconcile(functions: Functions): Promise<void> {
  const failures: unknown[] = [];
  let isLate = false;
  const log = (error: unknown) => process.stderr.write(`${failureLine("tick", error)}\n`);
  const onFailure = (error: unknown) => {
    if (failures.push(error) > 1 || isLate) log(error);
  };
  const ticked = functions.tickAll(onFailure).catch(onFailure);
  const timeout = new AbortController();
  const { signal } = timeout;
  const onLate = () => {
    isLate = true;
    if (failures.length > 0) log(failures[0]);
  };
  await Promise.race([ticked, pause(TICK_SECONDS * 1000, undefined, { signal }).then(onLate, () => {})]);
  timeout.abort();
  const ofReconciling = await reconcile(functions).catch((error: unknown) => [error]);
  for (const failure of ofReconciling) onFailure(failure);
  await ticked;
  if (failures.length > 0) throw failures[0];
}

/** Reconciles, and writes the lines of metrics and of changed capacities. Returns the failures. */
async function reconcile(functions: Functions): Promise<readonly unknown[]> {
  const { metrics, changes, failures } = await functions.reconcile();
  for (const line of [...metricsLines(metrics), ...changes.map(capacityLine)]) process.stdout.write(`${line}\n`);
  return failures;
}
