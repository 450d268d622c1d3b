/** @file The functions by name, on one context: parse the request, do the work, and tick if it may have unblocked the run. */
import { type ObjectKind, parseObjectKey, parseOutcomeKey } from "../core/contracts/keys.ts";
import { StartRun, TickRequest } from "../core/contracts/messages.ts";
import { parse } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Context } from "./context.ts";
import { enqueueEvaluation, recordEvaluation } from "./evaluating.ts";
import { type Reconciliation, reconcile, startSchedule } from "./reconciling.ts";
import { isScored, scoreAndFinalize } from "./scoring.ts";
import { startRun } from "./starting.ts";
import { Ticker } from "./ticking.ts";

/** The key of the object that an event announces. */
export interface ObjectKey {
  readonly key: string;
  /** Whether a tick sent the event again, since the outcome had no score then. Absent: no. */
  readonly isRepeat?: boolean;
}

/** Rejections are MgrpoError. A retryable one asks for another delivery. */
export interface Functions {
  /** Idempotent. Turns the schedule on, and ends with a tick, so that step 0 is open. */
  startRun(request: StartRun): Promise<void>;
  /** A thorough tick: also detects dead workers, abandons rollouts and handles lost events. */
  tick(request: TickRequest): Promise<void>;
  /** The scheduled tick: a thorough tick of every run. See `Ticker.tickAll`. */
  tickAll(onFailure?: (error: unknown) => void): Promise<void>;
  /** Call it after `tickAll`: sets fleets and schedule to what the runs need. */
  reconcile(): Promise<Reconciliation>;
  /** Turns the schedule on. Call it when a stopped run is resumed. */
  startSchedule(): Promise<void>;
  /** Ticks the run: the new policy version may complete its step. */
  manifestCreated(event: ObjectKey): Promise<void>;
  /** A repeat does nothing if the outcome has a score by now: it would run a slow reward again, and repeats would fill the queue. */
  scoreRollout(event: ObjectKey): Promise<void>;
  enqueueEvaluation(event: ObjectKey): Promise<void>;
  recordEvaluation(event: ObjectKey): Promise<void>;
  /** Resolves when no score that a tick requested is pending: each is recorded or has failed. */
  idle(): Promise<void>;
  /** Aborts pending judge requests, then waits as `idle` does: afterward the process can stop. */
  stop(): Promise<void>;
}

export function openFunctions(context: Context): Functions {
  const ticker = new Ticker(context);
  const { scoringQueue } = context;
  scoringQueue.open(async (key) => {
    const address = parseOutcomeKey(key) ?? refuseKey(key, "outcome");
    if (await scoreAndFinalize(context, address)) await ticker.tick(address.run, false);
  });
  return {
    async startRun(request) {
      const parsed = parse(StartRun, request, "start request", "config-invalid");
      await startRun(context, parsed);
      await startSchedule(context);
      await ticker.tick(parsed.config.run, false);
    },
    tick: async (request) => ticker.tick(parse(TickRequest, request, "tick", "event-malformed").run, true),
    tickAll: (onFailure) => ticker.tickAll(onFailure),
    reconcile: () => reconcile(context),
    startSchedule: () => startSchedule(context),
    manifestCreated: async ({ key }) => ticker.tick(runOf(key, "manifest"), false),
    async scoreRollout({ key, isRepeat = false }) {
      const address = parseOutcomeKey(key) ?? refuseKey(key, "outcome");
      if (!(isRepeat && (await isScored(context, address)))) await scoringQueue.now(key);
    },
    async enqueueEvaluation({ key }) {
      runOf(key, "team");
      await enqueueEvaluation(context, key);
    },
    async recordEvaluation({ key }) {
      runOf(key, "evaluation");
      await recordEvaluation(context, key);
    },
    idle: () => scoringQueue.idle(),
    async stop() {
      context.stopAsking();
      await scoringQueue.idle();
    },
  };
}

/** The run of an object of this kind. Refuses other keys. */
function runOf(key: string, kind: ObjectKind): string {
  const parsed = parseObjectKey(key);
  return parsed?.kind === kind ? parsed.run : refuseKey(key, kind);
}

function refuseKey(key: string, kind: ObjectKind): never {
  throw new MgrpoError("event-malformed", `'${key}' is not the key of a run's ${kind}: the event is dropped`);
}
