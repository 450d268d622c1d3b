/**
 * @file Reads documents in a separate thread, one at a time, so that none can block this process (and its heartbeats) or fill its memory. A
 * document that takes too much time or memory ends its thread; the next one gets a new thread.
 *
 *     idle ──document──> reading ──text──> idle
 *                           └── too slow, out of memory, crashed ──> (no thread): "it cannot be read"
 *
 *     read   waits for: the documents before it      unblocked by: their text, or their deadline
 */
import { Worker } from "node:worker_threads";
import { builtModule } from "../../../built-module.ts";
import { MgrpoError } from "../../../core/errors.ts";
import { type Document, type Extracted, TOO_COMPLEX } from "./document.ts";

export interface Reader {
  read(document: Document): Promise<Extracted>;
  close(): Promise<void>;
}

const SECONDS = 20;
const MEMORY_MEGABYTES = 768;

export function openReader(seconds = SECONDS): Reader {
  let worker: Worker | undefined;
  let last: Promise<unknown> = Promise.resolve();
  let closed = false;

  async function end(): Promise<void> {
    const ending = worker;
    worker = undefined;
    await ending?.terminate();
  }

  async function readNow(document: Document): Promise<Extracted> {
    if (closed) throw readerClosed();
    const thread = worker ?? startWorker();
    worker = thread;
    thread.ref();
    const extracted = await new Promise<Extracted | undefined>((resolve) => {
      const answer = (value?: Extracted) => {
        clearTimeout(timer);
        thread.off("message", answer).off("exit", died);
        resolve(value);
      };
      const died = () => answer();
      const timer = setTimeout(died, seconds * 1000);
      thread.on("message", answer).on("exit", died);
      thread.postMessage(document);
    });
    thread.unref();
    if (extracted) return extracted;
    // Closing says nothing about the document.
    if (closed) throw readerClosed();
    await end();
    return TOO_COMPLEX;
  }

  return {
    read(document) {
      const extracted = last.then(() => readNow(document));
      last = extracted.catch(() => {});
      return extracted;
    },
    close() {
      closed = true;
      return end();
    },
  };
}

const readerClosed = () => new MgrpoError("cancelled", "the reader of documents was closed");

function startWorker(): Worker {
  const resourceLimits = { maxOldGenerationSizeMb: MEMORY_MEGABYTES };
  const worker = new Worker(builtModule("adapters/tools/documents/reader-thread"), {
    execArgv: [],
    env: {},
    resourceLimits,
  });
  // An error (out of memory) ends the thread, which `exit` reports.
  worker.on("error", () => {});
  return worker;
}
