/** @file The functions by name, on one context: parse the request, do it, tick if it may have unblocked something. */
import { parseOutcomeKey } from "../../core/contracts/keys.ts";
import { StartRun, TickRequest } from "../../core/contracts/messages.ts";
import { parse } from "../../core/contracts/parse.ts";
import type { Context } from "../context.ts";
import { wake } from "./clock-switch.ts";
import { enqueueEvaluation, recordEvaluation } from "./evaluating.ts";
import { malformed, type ObjectKey, runOf } from "./object-key.ts";
import { tickAll } from "./runs.ts";
import { scoreAndFinalize } from "./scoring.ts";
import { startRun } from "./starting.ts";
import { steer } from "./steering.ts";
import { openTick } from "./ticking.ts";

export type Functions = ReturnType<typeof openFunctions>;

/** Rejections are MgrpoError; `retryable` ones want another delivery. */
export function openFunctions(context: Context) {
  const tick = openTick(context);
  return {
    /** Idempotent. Turns the clock on, and ends with a tick, so that step 0 is open. */
    startRun: async (request: StartRun): Promise<void> => {
      const parsed = parse(StartRun, request, "start request", "config-invalid");
      await startRun(context, parsed);
      await wake(context);
      await tick(parsed.config.run, false);
    },
    /** Thorough: also liveness, give-up, and whatever an event may have missed. */
    tick: async (request: TickRequest) => tick(parse(TickRequest, request, "tick", "event-malformed").run, true),
    /** The clock's: a thorough tick of every run. */
    tickAll: (failed?: (error: unknown) => void) => tickAll(context, tick, failed),
    /** After the clock's round: fleets and clock as the runs need them. */
    steer: () => steer(context),
    /** To be called when a run goes on that had stopped. */
    wake: () => wake(context),
    /** A new version: moves the step on. */
    manifestCreated: async ({ key }: ObjectKey) => tick(runOf(key, "manifest"), false),
    scoreRollout: async ({ key }: ObjectKey) => {
      const address = parseOutcomeKey(key) ?? malformed(key, "outcome");
      if (await scoreAndFinalize(context, address)) await tick(address.run, false);
    },
    enqueueEvaluation: async ({ key }: ObjectKey) => {
      runOf(key, "team");
      await enqueueEvaluation(context, key);
    },
    recordEvaluation: async ({ key }: ObjectKey) => {
      runOf(key, "evaluation");
      await recordEvaluation(context, key);
    },
  };
}
