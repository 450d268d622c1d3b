/**
 * @file A thread that kills its process when the resident memory of the process exceeds a limit, or when the parent process is gone. V8's own
 * limit covers the heap only; resident memory includes buffers and other threads. Posts a message once it is watching.
 */
import { parentPort } from "node:worker_threads";

const MAX_RESIDENT_BYTES = 1024e6;
const CHECK_MILLISECONDS = 20;

const parent = process.ppid;
setInterval(() => {
  if (process.memoryUsage.rss() > MAX_RESIDENT_BYTES || isOrphan()) process.kill(process.pid, "SIGKILL");
}, CHECK_MILLISECONDS);
parentPort?.postMessage("watching");

/**
 * On Windows, an orphan keeps the id of its parent; elsewhere it gets another parent. If a later process has the parent's id, the orphan goes
 * unnoticed on Windows.
 */
function isOrphan(): boolean {
  if (process.ppid !== parent) return true;
  try {
    process.kill(parent, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}
