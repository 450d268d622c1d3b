/**
 * @file A thread that kills its process when the resident memory of the process exceeds a limit, or when the parent process is gone. V8's own
 * limit covers the heap only; resident memory includes buffers and other threads. Posts a message once it is watching.
 */
import { parentPort } from "node:worker_threads";

const MAX_RESIDENT_BYTES = 1024e6;
const CHECK_MILLISECONDS = 20;

const parent = process.ppid;
setInterval(() => {
  if (process.memoryUsage.rss() > MAX_RESIDENT_BYTES || process.ppid !== parent) process.kill(process.pid, "SIGKILL");
}, CHECK_MILLISECONDS);
parentPort?.postMessage("watching");
