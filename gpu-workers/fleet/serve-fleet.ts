/**
 * @file The life of an instance of a fleet: one run after another, until none needs it.
 *
 *     find a run ──> serve it ──over, halted, refused, or nothing to evaluate──> find the next one, without waiting ──none──> the end
 *         ^              '── its place was taken by another
 *         '──────────────────'
 *
 * A run that this release cannot serve is refused before it gets a worker. The FLEET record says why, so that tick asks for no other
 * instance like this one; and the end is no failure, or systemd would start the worker again.
 */
import type { Fleet } from "../../core/contracts/deployment.ts";
import { isMgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import type { Log } from "../log.ts";
import type { ServiceEnd } from "../serve.ts";
import { enterRun, findRunForFleet, recordRefusal } from "./find-run.ts";

/**
 * How long an instance that just came up looks for a run. A spot instance's successor comes before it is gone, and a crashed worker's
 * place is free after its lease.
 */
const PATIENCE_SECONDS = 300;

/** `Parts`: what a run is served with. */
export interface FleetService<Parts> {
  readonly store: Store;
  readonly fleet: Fleet;
  /** Of this program. */
  readonly release: string;
  readonly log: Log;
  compose(run: string): Promise<Parts>;
  /** `enter` takes the worker's place; false sends it away again. */
  serve(parts: Parts, enter: (worker: string) => Promise<boolean>): Promise<ServiceEnd>;
}

/** Resolves when no run needs this instance, or can have it. Rejects when it fails to serve one: a crash. */
export async function serveFleet<Parts>(
  { store, fleet, release, log, compose, serve }: FleetService<Parts>,
  stop: AbortSignal,
): Promise<void> {
  const refused = new Set<string>();
  for (let patience = PATIENCE_SECONDS; !stop.aborted; ) {
    const run = await findRunForFleet(store, fleet, refused, patience, stop);
    if (run === undefined) break;
    log.info("run found", { run });
    let entered = false;
    const take = (worker: string) => {
      entered = true;
      return enterRun(store, fleet, run, worker);
    };
    const failed = async (error: unknown): Promise<ServiceEnd> => {
      if (isMgrpoError(error, "run-halted")) {
        log.warn("run halted", { run, error: error.message });
        return "over";
      }
      if (entered || stop.aborted || !isMgrpoError(error) || error.retryable) throw error;
      log.error("run refused", { run, code: error.code, error: error.message });
      refused.add(run);
      await recordRefusal(store, fleet, run, { release, reason: error.message });
      return "over";
    };
    const end = await compose(run)
      .then((parts) => serve(parts, take))
      .catch(failed);
    if (end === "over") patience = 0;
  }
  if (stop.aborted) return;
  log.info("no run needs this instance", { fleet: fleet.name });
}
