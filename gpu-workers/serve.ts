/**
 * @file Serves a run as one worker: a process, and in it one incarnation after another until the run is over or the process is stopped.
 *
 *     open ──> registered ──> incarnation: loops by role (worker-loops.ts) ──lost──> registered again
 *                                    └──over, stopped or unneeded──> closed
 *
 * A run that is halted is over, too. Its workers leave cleanly, so that the resumed run finds no claim of theirs. Then `serveWorker` rejects
 * with `run-halted`; for an evaluator of a fleet, it resolves to `over`. A supervised worker waits for its stop signal instead.
 */
import type { RunRecord } from "../core/contracts/records.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import { runEvaluations } from "./evaluation/eval-loop.ts";
import { httpNetwork, type WorkerNetwork } from "./invocations/network.ts";
import { within } from "./limits.ts";
import { type IncarnationEnd, runIncarnation } from "./liveness/incarnation.ts";
import { type Membership, register } from "./liveness/membership.ts";
import { startLoops } from "./worker-loops.ts";
import {
  closeWorkerProcess,
  hasRole,
  openWorkerProcess,
  type ServeWorkerOptions,
  type WorkerParts,
  type WorkerProcess,
} from "./worker-process.ts";

/** Seconds that a draining worker gives running invocations to end. */
const DRAIN_SECONDS = 5;

/** Seconds that a worker that fails gives its engines to close. A training call may keep them busy for hours, and the error must not wait. */
const CLOSE_SECONDS = 5;

/**
 * `over`: the run has ended or, for an evaluator of a fleet, has no job due; `stopped`: the signal aborted; `unneeded`: its fleet had no
 * free slot in the run.
 */
export type ServiceEnd = Exclude<IncarnationEnd, "lost"> | "unneeded";

export async function serveWorker(
  parts: WorkerParts,
  options: ServeWorkerOptions,
  stop: AbortSignal,
  network: WorkerNetwork = httpNetwork,
): Promise<ServiceEnd> {
  const worker = await openWorkerProcess(parts, options, network);
  const end = await serveIncarnations(worker, stop).catch(async (error: unknown) => {
    // An engine that hangs cannot be closed.
    if (!worker.meter.isStalled) await closeInTime(worker);
    throw error;
  });
  await closeWorkerProcess(worker);
  return end;
}

async function serveIncarnations(worker: WorkerProcess, stop: AbortSignal): Promise<ServiceEnd> {
  for (;;) {
    const end = await serveIncarnation(worker, stop);
    if (end !== "lost") return end;
  }
}

/** Never rejects: the error that ended the worker says more than an error while closing it. */
async function closeInTime(worker: WorkerProcess): Promise<void> {
  const closing = closeWorkerProcess(worker).catch((error: unknown) =>
    worker.parts.run.log.warn("the worker could not be closed", { error: String(error) }),
  );
  await within(closing, CLOSE_SECONDS);
}

async function serveIncarnation(worker: WorkerProcess, stop: AbortSignal): Promise<IncarnationEnd | ServiceEnd> {
  const { parts, options, observer, invocations, crashed } = worker;
  const { run } = parts;
  const registration = { agent: options.agent, roles: options.roles, url: invocations?.url ?? "" };
  const membership = await register(run, registration, observer, stop, () => worker.meter.isStalled).catch(
    (error: unknown) => {
      // It was stopped while it waited for workers of another release to leave.
      if (stop.aborted && isMgrpoError(error, "canceled")) return undefined;
      throw error;
    },
  );
  if (!membership) return "stopped";
  if (options.enter && !(await options.enter(membership.id))) {
    await membership.leave();
    return "unneeded";
  }
  let ended: RunRecord | undefined;
  const end = await runIncarnation({
    membership,
    stop,
    crashed,
    log: run.log,
    loops: (signal) => startLoops(worker, membership, signal),
    over: async (signal) => {
      ended = await untilOver(worker, membership, signal);
    },
    drain: async () => invocations?.drain(DRAIN_SECONDS),
  });
  if (end === "over" && ended?.status === "halted")
    throw new MgrpoError("run-halted", `run '${run.name}' is halted: ${ended.reason}`);
  return end;
}

/**
 * Evaluates first, if the worker has that role. Then resolves to the run once it has ended; never for a supervised worker, which another process
 * stops. For an evaluator of a fleet, resolves to undefined as soon as the run is halted or no job is due.
 */
async function untilOver(
  worker: WorkerProcess,
  membership: Membership,
  signal: AbortSignal,
): Promise<RunRecord | undefined> {
  const { parts, options, agents, checkpoints, observer, watch } = worker;
  const { run, scorerOf } = parts;
  if (hasRole(options, "eval")) {
    const untilIdle = options.enter !== undefined;
    const role = { run, agents, scorerOf, checkpoints, membership, observer, watch, untilIdle };
    await runEvaluations({ ...role, ...(worker.gateway && { app: worker.gateway }) }, signal);
    if (untilIdle) return undefined;
  }
  return watch.until((seen) => (seen.run.status === "running" || options.supervised ? undefined : seen.run), signal);
}
