/**
 * @file The watchdog of a worker process. Synchronous code that does not end, such as a loop or a backtracking regular expression of a tool,
 * blocks the main thread: no heartbeat, time limit or signal handler runs, so another thread (watchdog-thread.ts) kills the process. This is
 * a crash: each rollout that was in flight then runs alone, and one that crashes its process too often is abandoned.
 *
 * This program's own work blocks the main thread for less than ten seconds at a time, except engines that compute there. A process whose
 * inspector is open is spared: a breakpoint blocks the main thread too.
 */
import { url as inspectorUrl } from "node:inspector";
import { Worker } from "node:worker_threads";
import { builtModule } from "../../built-module.ts";
import type { RunConfig } from "../../core/contracts/config.ts";

const MIN_SECONDS = 60;
/** By then, other workers have long declared this one dead. */
const LEASES = 3;
const PULSE_MILLISECONDS = 500;
/** Policies whose engines compute in the main thread, or may. */
const IN_MAIN_THREAD = /^(eager|eager-gpu|recipe:.*)$/;

/** `silent`: no beat since the last look. `debugged`: the inspector was open at the last beat; looks do not clear it. */
export const Pulse = { silent: 0, beat: 1, debugged: 2 } as const;

export interface Watched {
  /** Shared memory with one number, a `Pulse`: the main thread sets it to `beat`, and each look resets `beat` to `silent`. */
  readonly pulse: Int32Array;
  readonly maxSilentLooks: number;
  /** Fields of the log line. */
  readonly who: Record<string, unknown>;
}

/** Seconds for which synchronous code may block the main thread. An engine's call there has its own limit. */
export function maxBlockedSeconds({
  agents,
  limits: { turnSeconds, trainingSeconds },
  liveness: { leaseSeconds },
}: Pick<RunConfig, "agents" | "limits" | "liveness">): number {
  const isEngineThere = Object.values(agents).some(({ policy }) => IN_MAIN_THREAD.test(policy));
  return Math.max(MIN_SECONDS, LEASES * leaseSeconds, ...(isEngineThere ? [turnSeconds, trainingSeconds] : []));
}

/**
 * Starts watching the calling thread. Returns a function that stops the watchdog.
 *
 * @param who fields of the line that is logged before the process is killed.
 */
export function startWatchdog(maxSeconds: number, who: Record<string, unknown>): () => Promise<void> {
  const pulse = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const watched: Watched = { pulse, maxSilentLooks: Math.ceil(maxSeconds), who };
  const module = builtModule("gpu-workers/liveness/watchdog-thread");
  const thread = new Worker(module, { execArgv: [], env: {}, workerData: watched });
  thread.unref();
  const beat = () => Atomics.store(pulse, 0, inspectorUrl() === undefined ? Pulse.beat : Pulse.debugged);
  beat();
  const beating = setInterval(beat, PULSE_MILLISECONDS);
  beating.unref();
  return async () => {
    clearInterval(beating);
    await thread.terminate();
  };
}
