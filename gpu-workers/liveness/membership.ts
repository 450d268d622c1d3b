/**
 * @file A worker's place in its run: registered under an id of its own, kept by a heartbeat, left by draining.
 *
 *     register ──> alive ──heartbeat──> alive ... ──SIGTERM──> draining ──all given back──> dead (by itself)
 *                    └── marked dead by an observer ──> `lost`: this incarnation ends, the process registers a new one
 *
 * Heartbeats come from the main thread while engines work in threads of their own, so a long call never looks like a death.
 */
import { randomBytes } from "node:crypto";
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { WorkerRecord, type WorkerRole } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import { drainWorker, heartbeat, markDead } from "../../core/training/writes.ts";
import type { RunContext } from "../run-context.ts";
import type { Observer } from "./observer.ts";

export interface Place {
  readonly agent: string;
  readonly roles: readonly WorkerRole[];
  /** Where its invocations are answered; empty if it answers none. */
  readonly url: string;
}

export interface Membership {
  readonly id: string;
  /** Beats until the signal aborts. Resolves "lost" when an observer declared this incarnation dead. */
  beat(signal: AbortSignal): Promise<"stopped" | "lost">;
  /** Names what runs alone now, before it starts; empty when it ended (poison, design rule 5). */
  alone(rollouts: readonly string[]): Promise<void>;
  drain(): Promise<void>;
  /** A clean end: nobody needs to wait for the lease. */
  leave(): Promise<void>;
}

export async function register(
  run: RunContext,
  place: Place,
  observer: Observer,
  stop: AbortSignal,
): Promise<Membership> {
  await refuseOtherRelease(run, observer, stop);
  const { table, clock } = run.store;
  const id = `${place.agent === "*" ? "team" : place.agent}-${randomBytes(6).toString("base64url")}`.slice(0, 40);
  const key = tableKeys.worker(run.name, id);
  const record: WorkerRecord = {
    run: run.name,
    worker: id,
    agent: place.agent,
    roles: [...place.roles],
    url: place.url,
    state: "alive",
    counter: 0,
    seenCounter: -1,
    seenAt: 0,
    release: run.release,
    inFlight: [],
  };
  if (!(await table.insert(key, record))) {
    const there = await table.get(key);
    if (there?.["url"] !== place.url) throw new MgrpoError("record-damaged", `worker id '${id}' is taken: start again`);
  }
  let state: "alive" | "draining" = "alive";
  run.log.info("registered", { worker: id, agent: place.agent, roles: place.roles, url: place.url });

  return {
    id,
    async beat(signal) {
      while (!signal.aborted) {
        await clock.sleep(run.config.liveness.heartbeatSeconds, signal);
        if (signal.aborted) break;
        const { item } = await table.update(heartbeat(run.name, id, state));
        if (item === undefined || item["state"] === "dead") {
          run.log.warn("declared dead", { worker: id });
          return "lost";
        }
      }
      return "stopped";
    },
    async alone(rollouts) {
      await table.update(heartbeat(run.name, id, state, rollouts));
    },
    async drain() {
      state = "draining";
      await table.update(drainWorker(run.name, id));
    },
    async leave() {
      const item = await table.get(key);
      if (!item) return;
      const last = parse(WorkerRecord, item, `WORKER ${id}`);
      if (last.state !== "dead") await table.update(markDead(last));
    },
  };
}

/** Two releases in one run would not train the same way: whoever comes second must wait for the first to be gone, or match it. */
async function refuseOtherRelease(run: RunContext, observer: Observer, stop: AbortSignal): Promise<void> {
  const { clock } = run.store;
  const patience = clock.monotonic() + 2 * run.config.liveness.leaseSeconds;
  for (let told = false; ; told = true) {
    await observer.look(true);
    const other = observer.workers().find(({ state, release }) => state !== "dead" && release !== run.release);
    if (!other) return;
    if (!told)
      run.log.warn("waiting for a worker of another release to go", { worker: other.worker, release: other.release });
    if (clock.monotonic() > patience) {
      throw new MgrpoError(
        "config-invalid",
        `worker '${other.worker}' of run '${run.name}' has release ${other.release}, this one ${run.release}: install the same files for all, or stop the others`,
      );
    }
    await clock.sleep(run.config.liveness.heartbeatSeconds, stop);
    if (stop.aborted) throw new MgrpoError("cancelled", "stopped while waiting for a worker of another release");
  }
}
