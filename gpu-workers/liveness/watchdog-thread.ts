/**
 * @file The watchdog's thread: every second, it looks for a new beat of the main thread's timer, and it kills the process once `maxSilentLooks`
 * looks in a row have found none. Looks are counted instead of time: there are none while the process is stopped or the machine sleeps.
 */
import { writeSync } from "node:fs";
import { workerData } from "node:worker_threads";
import type { ErrorCode } from "../../core/errors.ts";
import { createLog } from "../log.ts";
import { Pulse, type Watched } from "./watchdog.ts";

const LOOK_MILLISECONDS = 1000;
const CODE: ErrorCode = "deadline";

const watched: Watched = workerData;
let silentLooks = 0;
setInterval(() => {
  const pulse = Atomics.compareExchange(watched.pulse, 0, Pulse.beat, Pulse.silent);
  silentLooks = pulse === Pulse.silent ? silentLooks + 1 : 0;
  if (silentLooks >= watched.maxSilentLooks) endProcess(watched);
}, LOOK_MILLISECONDS);

function endProcess({ maxSilentLooks, who }: Watched): void {
  const error = `synchronous code has blocked the main thread for ${maxSilentLooks} seconds, so this process ends: correct the tool that loops or blocks, move its work to a thread or process, or raise liveness.leaseSeconds`;
  try {
    // This thread's `process.stderr` writes through the main thread.
    createLog((line) => writeSync(2, line), who).error("worker failed", { code: CODE, error });
  } finally {
    process.kill(process.pid, "SIGKILL");
  }
}
