/** @file The thread that reads documents, one after the other, for reader.ts. */
import { parentPort } from "node:worker_threads";
import { type Document, TOO_COMPLEX } from "./document.ts";
import { extract } from "./extract.ts";

const port = parentPort;
if (!port) throw new Error("adapters/tools/documents/reader-thread.ts runs as a worker thread only");

port.on("message", async (document: Document) => {
  port.postMessage(await extract(document).catch(() => TOO_COMPLEX));
});
