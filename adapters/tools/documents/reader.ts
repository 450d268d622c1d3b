/**
 * @file Reads documents in a small pool of processes, so that none can block this process (and its heartbeats), fill its memory or end it. The
 * processes stay warm. Callers take turns, so that one with many documents does not hold up the others.
 *
 *     document ──> queue ──> an idle or new process ──text──> text
 *                                   └── too slow, too large, crashed ──> suspect: back to the queue
 *     suspect  ──> queue ──> a process, with no other at work ──text──> text
 *                                   └── again ──> TOO_COMPLEX, remembered by its SHA-256
 *
 * The first failure may be the machine's fault (out of memory, or too busy), and the tools' cache keeps an answer for the whole run. So a
 * document is rejected only if its second process dies or times out too, while no other document is being read.
 *
 *     read   waits for: a process, then its reply      unblocked by: the reply, the end of the process, the document's deadline
 */
import { createHash } from "node:crypto";
import { MgrpoError } from "../../../core/errors.ts";
import { type Document, type Extracted, TOO_COMPLEX } from "./document.ts";
import { FairQueue } from "./fair-queue.ts";
import { noReader, ReaderProcess, type ReadOutcome } from "./reader-process.ts";

export interface Reader {
  /** Callers (rollouts) take turns. Rejects with `tool-backend` if no process can read, `canceled` if closed. */
  read(document: Document, caller?: string): Promise<Extracted>;
  close(): Promise<void>;
}

const TIMEOUT_SECONDS = 20;
const MAX_PROCESSES = 2;
/** Limits the attempts with processes that end before they receive the document. */
const MAX_ATTEMPTS = 3;

export function openReader(timeoutSeconds = TIMEOUT_SECONDS): Reader {
  return new ReaderPool(timeoutSeconds);
}

interface ReadTask {
  readonly document: Document;
  readonly caller: string;
  resolve(extracted: Extracted | Promise<Extracted>): void;
  reject(error: unknown): void;
}

/**
 * Of a document whose process died or timed out. `suspect`: it will be read again, while no other document is.
 * `rejected`: the second process died or timed out too, and the document is not read again.
 */
type Standing = "suspect" | "rejected";

class ReaderPool implements Reader {
  readonly #timeoutSeconds: number;
  readonly #queue = new FairQueue<ReadTask>();
  readonly #processes = new Set<ReaderProcess>();
  readonly #idle: ReaderProcess[] = [];
  /** By the document's SHA-256. */
  readonly #standings = new Map<string, Standing>();
  /** A suspect whose turn it is, but which waits until no other document is being read. Meanwhile, no other is started. */
  #next: ReadTask | undefined;
  #busy = 0;
  /** A suspect is being read. */
  #isExclusive = false;
  #isClosed = false;

  constructor(timeoutSeconds: number) {
    this.#timeoutSeconds = timeoutSeconds;
  }

  read(document: Document, caller = ""): Promise<Extracted> {
    if (this.#isClosed) return Promise.reject(readerClosed());
    return new Promise((resolve, reject) => {
      this.#queue.add(caller, { document, caller, resolve, reject });
      this.#startNext();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#next?.reject(readerClosed());
    this.#next = undefined;
    for (const { reject } of this.#queue.clear()) reject(readerClosed());
    await Promise.all([...this.#processes].map((process) => process.end()));
  }

  /** Starts as many tasks as may run now. */
  #startNext(): void {
    if (this.#isExclusive || this.#busy >= (this.#next ? 1 : MAX_PROCESSES)) return;
    const task = this.#next ?? this.#queue.take();
    this.#next = undefined;
    if (!task) return;
    const standing = this.#standingOf(task.document);
    if (standing === "suspect" && this.#busy > 0) {
      this.#next = task;
      return;
    }
    this.#busy += 1;
    this.#isExclusive = standing === "suspect";
    const done = () => {
      this.#busy -= 1;
      this.#isExclusive = false;
      this.#startNext();
    };
    const fail = (error: unknown) => task.reject(this.#isClosed ? readerClosed() : error);
    this.#run(task, standing).catch(fail).finally(done);
    this.#startNext();
  }

  async #run({ document, caller, resolve }: ReadTask, standing: Standing | undefined): Promise<void> {
    if (standing === "rejected") return resolve(TOO_COMPLEX);
    const extracted = await this.#readNow(document);
    if (extracted !== "fatal") {
      if (standing === "suspect") this.#standings.delete(sha256Of(document));
      return resolve(extracted);
    }
    this.#standings.set(sha256Of(document), standing === "suspect" ? "rejected" : "suspect");
    resolve(standing === "suspect" ? TOO_COMPLEX : this.read(document, caller));
  }

  #standingOf(document: Document): Standing | undefined {
    return this.#standings.size > 0 ? this.#standings.get(sha256Of(document)) : undefined;
  }

  async #readNow(document: Document): Promise<Extracted | "fatal"> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const outcome = await this.#readBy(this.#takeProcess(), document);
      // An outcome that `close` caused says nothing about the document.
      if (this.#isClosed) throw readerClosed();
      if (outcome !== "undelivered") return outcome === "fatal" ? outcome : outcome.extracted;
    }
    throw noReader();
  }

  async #readBy(process: ReaderProcess, document: Document): Promise<ReadOutcome> {
    let outcome: ReadOutcome = "undelivered";
    try {
      outcome = await process.read(document, this.#timeoutSeconds);
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

const readerClosed = () => new MgrpoError("canceled", "the document reader was closed");
