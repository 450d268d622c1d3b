/**
 * @file The thread that ends its process when it uses too much memory, of any kind: heaps, buffers, and memory of other threads. V8 limits
 * the heap only. Also ends the process when the parent is gone. Posts a message once it is watching.
 */
import { parentPort } from "node:worker_threads";

const MAX_BYTES = 1024e6;
const MILLISECONDS = 20;

const parent = process.ppid;
setInterval(() => {
  if (process.memoryUsage.rss() > MAX_BYTES || process.ppid !== parent) process.kill(process.pid, "SIGKILL");
}, MILLISECONDS);
parentPort?.postMessage("watching");
