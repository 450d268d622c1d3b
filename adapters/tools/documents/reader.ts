/**
 * @file Reads documents in a small pool of processes, so that none can block this process (and its heartbeats), fill its memory or end it. The
 * processes stay warm. Callers take turns, so that one with many documents does not hold up the others.
 *
 *     document ──> queue ──> an idle or new process ──text──> text
 *                                   └── too slow, too large, crashed ──> TOO_COMPLEX, remembered by its SHA-256
 *
 *     read   waits for: a process, then its reply      unblocked by: the reply, the end of the process, the document's deadline
 */
import { createHash } from "node:crypto";
import { MgrpoError } from "../../../core/errors.ts";
import { type Document, type Extracted, TOO_COMPLEX } from "./document.ts";
import { FairQueue } from "./fair-queue.ts";
import { noReader, ReaderProcess, type ReadOutcome } from "./reader-process.ts";

export interface Reader {
  /** Documents of different callers take turns. */
  read(document: Document, caller?: object): Promise<Extracted>;
  close(): Promise<void>;
}

const SECONDS = 20;
const PROCESSES = 2;
/** Limits the attempts with processes that end before they receive the document. */
const MAX_ATTEMPTS = 3;

export function openReader(seconds = SECONDS): Reader {
  return new ReaderPool(seconds, PROCESSES);
}

interface Task {
  readonly document: Document;
  resolve(extracted: Extracted): void;
  reject(error: unknown): void;
}

class ReaderPool implements Reader {
  readonly #seconds: number;
  readonly #maxProcesses: number;
  readonly #queue = new FairQueue<Task>();
  readonly #processes = new Set<ReaderProcess>();
  readonly #idle: ReaderProcess[] = [];
  /** SHA-256 of documents that ended their process or timed out. They are not read again. */
  readonly #fatal = new Set<string>();
  #busy = 0;
  #isClosed = false;

  constructor(seconds: number, maxProcesses: number) {
    this.#seconds = seconds;
    this.#maxProcesses = maxProcesses;
  }

  read(document: Document, caller: object = this): Promise<Extracted> {
    if (this.#isClosed) return Promise.reject(readerClosed());
    return new Promise((resolve, reject) => {
      this.#queue.add(caller, { document, resolve, reject });
      this.#startNext();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { reject } of this.#queue.clear()) reject(readerClosed());
    await Promise.all([...this.#processes].map((process) => process.end()));
  }

  #startNext(): void {
    if (this.#busy >= this.#maxProcesses) return;
    const task = this.#queue.take();
    if (!task) return;
    this.#busy += 1;
    const done = () => {
      this.#busy -= 1;
      this.#startNext();
    };
    const fail = (error: unknown) => task.reject(this.#isClosed ? readerClosed() : error);
    this.#readNow(task.document).then(task.resolve, fail).finally(done);
  }

  async #readNow(document: Document): Promise<Extracted> {
    if (this.#fatal.size > 0 && this.#fatal.has(sha256Of(document))) return TOO_COMPLEX;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const outcome = await this.#readBy(this.#takeProcess(), document);
      // Closing says nothing about the document.
      if (this.#isClosed) throw readerClosed();
      if (outcome === "undelivered") continue;
      if (outcome !== "fatal") return outcome.extracted;
      this.#fatal.add(sha256Of(document));
      return TOO_COMPLEX;
    }
    throw noReader();
  }

  async #readBy(process: ReaderProcess, document: Document): Promise<ReadOutcome> {
    let outcome: ReadOutcome = "undelivered";
    try {
      outcome = await process.read(document, this.#seconds);
      return outcome;
    } finally {
      if (typeof outcome === "object" && !outcome.isSpent) this.#idle.push(process);
      else await this.#end(process);
    }
  }

  #takeProcess(): ReaderProcess {
    for (let idle = this.#idle.pop(); idle; idle = this.#idle.pop()) {
      if (idle.isAlive) return idle;
      this.#processes.delete(idle);
    }
    const process = new ReaderProcess();
    this.#processes.add(process);
    return process;
  }

  async #end(process: ReaderProcess): Promise<void> {
    this.#processes.delete(process);
    await process.end();
  }
}

/** The same bytes may be read differently as another type. */
function sha256Of({ type, bytes }: Document): string {
  return createHash("sha256").update(`${type}\0`).update(bytes).digest("hex");
}

const readerClosed = () => new MgrpoError("canceled", "the reader of documents was closed");
