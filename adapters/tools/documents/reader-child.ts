/**
 * @file The process that reads documents, one after the other, for reader-process.ts.
 *
 * It ends when its parent ends, and when it uses too much memory. The thread memory-watch.ts handles both, since a document can keep this
 * thread busy. On Linux, this process is among the first to be killed if the machine runs out of memory.
 */
import { writeFile } from "node:fs/promises";
import { Worker } from "node:worker_threads";
import { builtModule } from "../../../built-module.ts";
import { type Document, READY, type Reply, STARTED, unreadableBy } from "./document.ts";
import { extract } from "./extract.ts";

/** A process with more resident memory than this takes no further document. Libraries and the memory watch take about 100 MB. */
const MAX_IDLE_BYTES = 384e6;

const send = process.send?.bind(process);
if (!send) throw new Error("adapters/tools/documents/reader-child.ts runs as a child process only");

// Signals to the whole process group (Ctrl-C) are for the parent. It decides when to give up on its documents.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => {});
process.on("disconnect", () => process.exit());
process.on("message", async (document: Document) => {
  send(STARTED);
  const extracted = await extract(document).catch((error: unknown) => unreadableBy(error));
  const reply: Reply = { extracted, isSpent: process.memoryUsage.rss() > MAX_IDLE_BYTES };
  send(reply);
});

// A sandbox may make /proc read-only or hide it; the memory watch works without it.
await writeFile("/proc/self/oom_score_adj", "1000").catch(() => {});
const watch = new Worker(builtModule("adapters/tools/documents/memory-watch"), { execArgv: [], env: {} });
watch.once("message", () => send(READY));
