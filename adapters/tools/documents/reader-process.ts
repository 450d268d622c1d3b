/**
 * @file One process that reads documents, seen from its parent. A document can crash it or keep it busy forever. To protect itself, the
 * parent gives it an empty environment, a limited heap, limited memory (memory-watch.ts), and a deadline per document.
 *
 *     starting ──ready──> idle ──document──> reading ──reply──> idle
 *         └── cannot start: tool-backend        └── crashed or timed out: ended
 *
 *     read   waits for: ready, then the reply      unblocked by: either, the end of the process, or a deadline
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import * as z from "zod";
import { builtModule } from "../../../built-module.ts";
import { MgrpoError } from "../../../core/errors.ts";
import { type Document, MAX_REASON, MAX_TITLE, READY, type Reply, STARTED } from "./document.ts";

const HEAP_MEGABYTES = 768;
const START_SECONDS = 30;

const ReplySchema: z.ZodType<Reply> = z.strictObject({
  extracted: z.union([
    z.strictObject({ title: z.string().max(MAX_TITLE), text: z.string() }),
    z.strictObject({ unreadable: z.string().max(MAX_REASON) }),
  ]),
  isSpent: z.boolean(),
});

/** `fatal`: the process ended while it read the document, or timed out. `undelivered`: the process ended before it received the document. */
export type ReadOutcome = Reply | "fatal" | "undelivered";

export class ReaderProcess {
  readonly #child: ChildProcess;
  #isReady = false;
  /** Whether it has started on the latest document. */
  #hasStarted = false;

  /** Throws `tool-backend` if Node.js refuses to start the process. */
  constructor() {
    this.#child = startChild();
    // Without a listener, `error` would end this process. `#nextMessage` handles what goes wrong.
    this.#child.on("error", () => {});
    this.#child.on("message", (message) => {
      if (message === STARTED) this.#hasStarted = true;
    });
  }

  get isAlive(): boolean {
    return this.#child.connected && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Rejects with `tool-backend` if the process cannot start. */
  async read(document: Document, seconds: number): Promise<ReadOutcome> {
    this.#keepParentAlive(true);
    try {
      await this.#waitUntilReady();
      this.#hasStarted = false;
      const message = this.#nextMessage(seconds);
      this.#child.send(document, () => {});
      const reply = await message;
      if (reply !== undefined) return ReplySchema.parse(reply);
      return this.#hasStarted || this.isAlive ? "fatal" : "undelivered";
    } finally {
      this.#keepParentAlive(false);
    }
  }

  async end(): Promise<void> {
    if (!this.isAlive) return;
    this.#keepParentAlive(true);
    this.#child.kill("SIGKILL");
    await once(this.#child, "exit");
  }

  async #waitUntilReady(): Promise<void> {
    if (this.#isReady) return;
    this.#isReady = (await this.#nextMessage(START_SECONDS)) === READY;
    if (!this.#isReady) throw noReader();
  }

  /** `READY` or a reply. Undefined: the process ends, or the wait times out, first. */
  #nextMessage(seconds: number): Promise<unknown> {
    return new Promise((resolve) => {
      const settle = (message?: unknown) => {
        clearTimeout(timer);
        this.#child.off("message", receive).off("exit", end).off("error", end);
        resolve(message);
      };
      const receive = (message: unknown) => {
        if (message !== STARTED) settle(message);
      };
      const end = () => settle();
      const timer = setTimeout(end, seconds * 1000);
      this.#child.on("message", receive).on("exit", end).on("error", end);
      if (!this.isAlive) end();
    });
  }

  /** An idle process does not keep its parent alive. */
  #keepParentAlive(isBusy: boolean): void {
    const { channel } = this.#child;
    if (isBusy) {
      this.#child.ref();
      channel?.ref();
    } else {
      this.#child.unref();
      channel?.unref();
    }
  }
}

function startChild(): ChildProcess {
  try {
    return fork(builtModule("adapters/tools/documents/reader-child"), {
      execArgv: [`--max-old-space-size=${HEAP_MEGABYTES}`],
      env: {},
      serialization: "advanced",
      // V8 prints fatal errors.
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
  } catch (cause) {
    // Node.js emits some system errors (EAGAIN, EMFILE) as `error`, and throws the others (ENOMEM).
    throw noReader(cause);
  }
}

export const noReader = (cause?: unknown) =>
  new MgrpoError("tool-backend", "this machine cannot run a process that reads documents", { retryable: true, cause });
