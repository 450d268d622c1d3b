/**
 * @file The life cycle of a fleet's instance: it serves one run after another until none needs it.
 *
 *     find a run ──> serve it ──over, halted, refused, or nothing to evaluate──> find the next one, without waiting ──none──> the end
 *         ^              '── its slot was taken by another
 *         '──────────────────'
 *
 * It takes no run once another release is deployed: runs are launched from the deployed one, and a run has workers of one release.
 *
 * A run that this release cannot serve is refused before it gets a worker. The FLEET record says why, so tick does not request another
 * instance like this one. A refusal does not fail the process; otherwise systemd would restart the worker.
 */
import type { Fleet } from "../../core/contracts/deployment.ts";
import { isMgrpoError, type MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import type { Log } from "../log.ts";
import type { ServiceEnd } from "../serve.ts";
import { deployedRelease, enterRun, findRunForFleet, recordRefusal } from "./find-run.ts";

/**
 * How long a new instance looks for a run. It must outlast the time until a slot becomes free: a spot instance's successor starts before its
 * predecessor is gone, and a crashed worker's slot becomes free when its lease expires.
 */
const PATIENCE_SECONDS = 300;

/** `Parts`: what serving a run needs. */
export interface FleetService<Parts> {
  readonly store: Store;
  readonly fleet: Fleet;
  /** Release of this program. */
  readonly release: string;
  readonly log: Log;
  compose(run: string): Promise<Parts>;
  /** Serves the run once `enter` has taken a slot for the worker; if `enter` returns false, the worker leaves. */
  serve(parts: Parts, enter: (worker: string) => Promise<boolean>): Promise<ServiceEnd>;
}

/**
 * Resolves when this instance is needed by no run that it can serve, when another release is deployed, or when `stop` aborts. Rejects when serving a run
 * crashes, or the store cannot be read.
 */
export async function serveFleet<Parts>(service: FleetService<Parts>, stop: AbortSignal): Promise<void> {
  const { store, fleet, release, log } = service;
  const refused = new Set<string>();
  const damaged = new Set<string>();
  const onDamaged = (run: string, { message }: MgrpoError) => {
    if (!damaged.has(run)) log.warn("run skipped", { run, error: message });
    damaged.add(run);
  };
  for (let patience = PATIENCE_SECONDS; !stop.aborted; ) {
    const run = await findRunForFleet(store, fleet, refused, patience, stop, onDamaged);
    if (run === undefined) break;
    const deployed = await deployedRelease(store, fleet);
    if (deployed !== release) {
      log.warn("another release is deployed, so this instance takes no run", { release, deployed });
      return;
    }
    log.info("run found", { run });
    const end = await serveRun(service, run, stop);
    if (end === "refused") refused.add(run);
    if (end === "over" || end === "refused") patience = 0;
  }
  if (!stop.aborted) log.info("no run needs this instance", { fleet: fleet.name });
}

async function serveRun<Parts>(
  { store, fleet, release, log, compose, serve }: FleetService<Parts>,
  run: string,
  stop: AbortSignal,
): Promise<ServiceEnd | "refused"> {
  let hasTriedToEnter = false;
  const enter = (worker: string) => {
    hasTriedToEnter = true;
    return enterRun(store, fleet, run, worker);
  };
  try {
    return await serve(await compose(run), enter);
  } catch (error) {
    if (isMgrpoError(error, "run-halted")) {
      log.warn("run halted", { run, error: error.message });
      return "over";
    }
    if (hasTriedToEnter || stop.aborted || !isMgrpoError(error) || error.retryable) throw error;
    log.error("run refused", { run, code: error.code, error: error.message });
    await recordRefusal(store, fleet, run, { release, reason: error.message });
    return "refused";
  }
}
