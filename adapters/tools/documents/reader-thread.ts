/** @file The thread that documents are read in: one after the other, told by and told to reader.ts. */
import { parentPort } from "node:worker_threads";
import { type Document, TOO_COMPLEX } from "./document.ts";
import { extract } from "./extract.ts";

const port = parentPort;
if (!port) throw new Error("adapters/tools/documents/reader-thread.ts runs as a worker thread only");

port.on("message", async (document: Document) => {
  port.postMessage(await extract(document).catch(() => TOO_COMPLEX));
});
