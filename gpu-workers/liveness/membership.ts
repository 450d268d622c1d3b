/**
 * @file A worker's membership in its run: it registers under a unique id, sends heartbeats, and leaves by draining.
 *
 *     register ──> alive ──heartbeat──> alive ... ──SIGTERM──> draining ──everything returned──> dead (by itself)
 *                    ├── marked dead by an observer ──> `lost`: this incarnation ends, the process registers a new one
 *                    └── an engine call hangs ──> `hung`: the process ends, and others notice when its lease expires
 *
 * The main thread sends the heartbeats while engines work in separate threads, so a long engine call never looks like a death; only
 * `eager`, `eager-gpu` and a recipe's own engine may work in the main thread. A worker whose engine hangs stops sending heartbeats (progress.ts).
 * A process whose main thread is blocked by other code is killed (watchdog.ts).
 */
import { randomBytes } from "node:crypto";
import { tableKeys } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { WorkerRecord, type WorkerRole } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Clock } from "../../core/ports.ts";
import { drainWorker, heartbeat, markDead, type RolloutCounts, setInFlight } from "../../core/training/writes.ts";
import type { RunContext } from "../run-context.ts";
import type { WorkerObserver } from "./observer.ts";

export interface Registration {
  /** The agent to serve, or `*` for the whole team. */
  readonly agent: string;
  readonly roles: readonly WorkerRole[];
  /** Where other workers send invocations; empty if it takes none. */
  readonly url: string;
}

export interface Membership {
  readonly id: string;
  /** Set once this incarnation is lost or hung, unless it was draining. As after a crash, a rollout in flight may be the cause. */
  readonly end: "lost" | "hung" | undefined;
  /**
   * Sends heartbeats until the signal aborts. Resolves to "lost" when an observer declared this incarnation dead. Rejects with `deadline`
   * when the worker has stalled: the process must end.
   */
  beat(signal: AbortSignal): Promise<"stopped" | "lost">;
  /** Watches the engine, without heartbeats, until the signal aborts: for a worker that is ending. Rejects as `beat` does. */
  watchEngine(signal: AbortSignal): Promise<void>;
  /** Records the rollouts that a crash of this worker counts against, before they start; an empty list when they have ended. */
  setInFlight(rollouts: readonly string[]): Promise<void>;
  /** `count`: how many rollouts run or are quarantined now. Heartbeats record it when it has changed. */
  setRolloutCounter(count: () => RolloutCounts): void;
  drain(): Promise<void>;
  /** Leaves cleanly, so that nobody waits for the lease to expire. */
  leave(): Promise<void>;
}

interface MembershipState {
  state: "alive" | "draining";
  end: Membership["end"];
  /** What the WORKER record has. */
  recorded: RolloutCounts;
  count: () => RolloutCounts;
}

export async function register(
  run: RunContext,
  registration: Registration,
  observer: WorkerObserver,
  stop: AbortSignal,
  isStalled: () => boolean = () => false,
): Promise<Membership> {
  const { table, clock } = run.store;
  const id = await enter(run, registration, observer, stop);
  const none: RolloutCounts = { running: 0, quarantined: 0 };
  const member: MembershipState = { state: "alive", end: undefined, recorded: none, count: () => member.recorded };
  const endBy = (cause: "lost" | "hung") => {
    if (member.state !== "draining") member.end = cause;
  };
  const requireProgress = () => {
    if (!isStalled()) return;
    endBy("hung");
    throw new MgrpoError("deadline", "an engine call hangs and cannot be ended: the worker exits");
  };

  return {
    id,
    get end() {
      return member.end;
    },
    async beat(signal) {
      const nextBeat = paced(clock, run.config.liveness.heartbeatSeconds);
      for (;;) {
        await nextBeat(signal);
        if (signal.aborted) return "stopped";
        requireProgress();
        const now = member.count();
        const { running, quarantined } = member.recorded;
        const isSame = now.running === running && now.quarantined === quarantined;
        const { item } = await table.update(heartbeat(run.name, id, member.state, isSame ? undefined : now));
        member.recorded = now;
        if (item === undefined || item["state"] === "dead") {
          run.log.warn("declared dead", { worker: id });
          endBy("lost");
          return "lost";
        }
      }
    },
    async watchEngine(signal) {
      for (; !signal.aborted; await clock.sleep(run.config.liveness.heartbeatSeconds, signal)) requireProgress();
    },
    async setInFlight(rollouts) {
      await table.update(setInFlight(run.name, id, member.state, rollouts));
    },
    setRolloutCounter(counter) {
      member.count = counter;
    },
    async drain() {
      member.state = "draining";
      await table.update(drainWorker(run.name, id));
    },
    leave: () => leave(run, id),
  };
}

/**
 * Each call of the result resolves `seconds` after the one before it did, or at once if the work between them took longer: a run's budget
 * counts heartbeats as time (run-budget.ts).
 */
function paced(clock: Clock, seconds: number): (signal: AbortSignal) => Promise<void> {
  let last = clock.monotonic();
  return async (signal) => {
    await clock.sleep(Math.max(0, last + seconds - clock.monotonic()), signal);
    last = clock.monotonic();
  };
}

async function leave({ name, store: { table } }: RunContext, id: string): Promise<void> {
  const item = await table.get(tableKeys.worker(name, id));
  if (!item) return;
  const last = parse(WorkerRecord, item, `WORKER ${id}`);
  if (last.state !== "dead") await table.update(markDead(last));
}

/**
 * Inserts the WORKER record once no worker of another release is left, and returns its id. Two workers that look at the same time see
 * nobody, so each looks again after its insert: at least one of them sees the other, and leaves.
 */
async function enter(
  run: RunContext,
  registration: Registration,
  observer: WorkerObserver,
  stop: AbortSignal,
): Promise<string> {
  const deadline = run.store.clock.monotonic() + 2 * run.config.liveness.leaseSeconds;
  for (;;) {
    await waitForOtherRelease(run, observer, deadline, stop);
    const id = await insertWorker(run, registration);
    await observer.refresh(true);
    const other = workerOfOtherRelease(run, observer);
    if (!other) return id;
    await leave(run, id);
    // If both have left, one comes back first.
    if (id > other.worker) await run.store.clock.sleep(2 * run.config.liveness.heartbeatSeconds, stop);
  }
}

function workerOfOtherRelease(run: RunContext, observer: WorkerObserver): WorkerRecord | undefined {
  return observer.workers().find(({ state, release }) => state !== "dead" && release !== run.release);
}

/** Inserts the WORKER record under a new random id, and returns the id. */
async function insertWorker({ name, release, store, log }: RunContext, registration: Registration): Promise<string> {
  const { agent, roles, url } = registration;
  const id = `${agent === "*" ? "team" : agent}-${randomBytes(6).toString("base64url")}`.slice(0, 40);
  const key = tableKeys.worker(name, id);
  const record: WorkerRecord = {
    run: name,
    worker: id,
    agent,
    roles: [...roles],
    url,
    state: "alive",
    counter: 0,
    seenCounter: -1,
    seenAt: 0,
    release,
    inFlight: [],
  };
  if (!(await store.table.insert(key, parse(WorkerRecord, record, "this worker's record", "config-invalid")))) {
    // An earlier attempt may have succeeded although its response was lost.
    const existing = await store.table.get(key);
    if (existing?.["url"] !== url) throw new MgrpoError("record-damaged", `worker id '${id}' is taken: start again`);
  }
  log.info("registered", { worker: id, agent, roles, url });
  return id;
}

/** Two releases in one run may train differently: waits until the other one has left. Rejects with `config-invalid` at the deadline. */
async function waitForOtherRelease(
  run: RunContext,
  observer: WorkerObserver,
  deadline: number,
  stop: AbortSignal,
): Promise<void> {
  const { clock } = run.store;
  for (let isLogged = false; ; isLogged = true) {
    await observer.refresh(true);
    const other = workerOfOtherRelease(run, observer);
    if (!other) return;
    if (!isLogged)
      run.log.warn("waiting for a worker of another release to leave", {
        worker: other.worker,
        release: other.release,
      });
    if (clock.monotonic() > deadline) {
      throw new MgrpoError(
        "config-invalid",
        `worker '${other.worker}' of run '${run.name}' has release ${other.release}, this one has ${run.release}: install the same files for all, or stop the others`,
      );
    }
    await clock.sleep(run.config.liveness.heartbeatSeconds, stop);
    if (stop.aborted) throw new MgrpoError("canceled", "stopped while waiting for a worker of another release");
  }
}
