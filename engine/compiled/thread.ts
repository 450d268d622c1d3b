/**
 * @file The main thread's side of an engine thread. The thread starts with the first call and is reused by all later ones, so its graphs are
 * compiled once. It keeps the process alive only while a call is open.
 *
 *     open ──answered──> closed
 *       ├── any call but a sample times out ─────────────────────────────────────> the thread is terminated
 *       └── a sample is aborted or times out ──> canceled ──not closed in time──> the thread is terminated
 *
 * When the thread ends, the hung call rejects with `deadline` and every other open call with `worker-unavailable`. The next call starts
 * a new thread, without the samplers and trainers of the old one (thread-proxies.ts).
 */
import { Worker } from "node:worker_threads";
import { builtModule } from "../../built-module.ts";
import { errorText, MgrpoError } from "../../core/errors.ts";
import { fromPortable } from "../../core/portable-error.ts";
import type { EngineCall, FromThread, ToThread } from "./protocol.ts";

/** Seconds within which a healthy thread closes a sample, a sampler or a trainer: it checks for messages between two graph runs. */
export const CANCEL_SECONDS = 60;

interface PendingCall {
  readonly method: EngineCall["method"];
  readonly seconds: number | undefined;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  timer: NodeJS.Timeout | undefined;
  isCanceled: boolean;
  /** Canceled by its caller, not by its time limit. */
  isAborted: boolean;
  isOverdue: boolean;
}

export interface EngineCallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Wall-clock limit of the call; undefined: no limit. */
  readonly seconds?: number | undefined;
}

export class EngineThread {
  #worker: Worker | undefined;
  #calls = 0;
  #handles = 0;
  #generation = 0;
  readonly #pending = new Map<number, PendingCall>();

  /** Changes when the thread ends: samplers and trainers that were opened before are lost. */
  get generation(): number {
    return this.#generation;
  }

  /** A handle for a sampler or trainer that is about to be opened in this thread. */
  newHandle(): number {
    return this.#handles++;
  }

  /** Settles when the thread has closed the call, or has ended. */
  call<T>(handle: number, body: EngineCall, { signal, seconds }: EngineCallOptions = {}): Promise<T> {
    const { method } = body;
    if (signal?.aborted) return Promise.reject(new MgrpoError("canceled", `${method} was canceled by its caller`));
    const id = this.#calls++;
    // First, since it throws if the body cannot be copied: then no call is open.
    this.#post({ kind: "call", call: id, handle, body });
    const settled = new Promise<unknown>((resolve, reject) => {
      const call: PendingCall = {
        method,
        seconds,
        resolve,
        reject,
        timer: undefined,
        isCanceled: false,
        isAborted: false,
        isOverdue: false,
      };
      this.#pending.set(id, call);
      this.#armTimer(id, call, seconds);
    });
    const abort = () => this.#cancel(id);
    signal?.addEventListener("abort", abort, { once: true });
    this.#worker?.ref();
    // The thread answers each method with a value of type T.
    return settled.finally(() => signal?.removeEventListener("abort", abort)) as Promise<T>;
  }

  release(handle: number, sequence: string): void {
    if (this.#worker) this.#post({ kind: "release", handle, sequence });
  }

  #armTimer(id: number, call: PendingCall, seconds: number | undefined): void {
    clearTimeout(call.timer);
    if (seconds === undefined) return;
    call.timer = setTimeout(() => this.#onTimeout(id, call, seconds), Math.min(seconds * 1000, 2 ** 31 - 1));
    call.timer.unref();
  }

  #onTimeout(id: number, call: PendingCall, seconds: number): void {
    // A long call on the same thread delays samples and closes, so their time limits restart.
    if (!isLongCall(call) && this.#hasLongCall) {
      this.#armTimer(id, call, seconds);
      return;
    }
    call.isOverdue = true;
    if (call.method === "sample" && !call.isCanceled) this.#cancel(id);
    else void this.#worker?.terminate();
  }

  get #hasLongCall(): boolean {
    return [...this.#pending.values()].some((call) => isLongCall(call) && !call.isOverdue);
  }

  #cancel(id: number): void {
    const call = this.#pending.get(id);
    if (!call || call.isCanceled) return;
    call.isCanceled = true;
    call.isAborted = !call.isOverdue;
    this.#post({ kind: "cancel", call: id });
    if (call.seconds !== undefined) this.#armTimer(id, call, cancelSeconds(call.seconds));
  }

  /** Removes a call from the open calls. */
  #close(id: number): PendingCall | undefined {
    const call = this.#pending.get(id);
    clearTimeout(call?.timer);
    this.#pending.delete(id);
    if (this.#pending.size === 0) this.#worker?.unref();
    return call;
  }

  #post(message: ToThread): void {
    this.#worker ??= this.#start();
    this.#worker.postMessage(message);
  }

  #start(): Worker {
    const worker = new Worker(builtModule("engine/compiled/worker"), { execArgv: [] });
    worker.on("message", (message: FromThread) => this.#onAnswer(message));
    worker.on("error", (error) => this.#onEnd(worker, errorText(error)));
    worker.on("exit", (code) => this.#onEnd(worker, `exit code ${code}`));
    worker.unref();
    return worker;
  }

  #onAnswer(message: FromThread): void {
    const call = this.#close(message.call);
    if (!call) return;
    if (message.kind === "result") call.resolve(message.value);
    // The timeout canceled it, not its caller.
    else if (call.isOverdue && !call.isAborted && message.error.code === "canceled") call.reject(deadlineError(call));
    else call.reject(fromPortable(message.error));
  }

  #onEnd(worker: Worker, reason: string): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    this.#generation += 1;
    for (const id of [...this.#pending.keys()]) {
      const call = this.#close(id);
      if (call?.isOverdue) call.reject(deadlineError(call));
      else
        call?.reject(new MgrpoError("worker-unavailable", `the engine thread ended: ${reason}`, { retryable: true }));
    }
  }
}

/** Any call but a sample or a close: it may keep the thread busy for a long time. */
const isLongCall = ({ method }: PendingCall): boolean => method !== "sample" && method !== "close";

/** Seconds within which a canceled sample must close. */
const cancelSeconds = (seconds: number): number => Math.min(seconds, CANCEL_SECONDS);

function deadlineError({ method, seconds = 0, isAborted }: PendingCall): MgrpoError {
  const setting = method === "sample" ? "limits.turnSeconds" : "limits.trainingSeconds";
  // The limit of a close may be below the setting.
  const limit = method === "close" ? `${seconds} s` : `${setting} ${seconds}`;
  const fault = isAborted
    ? `stop a canceled '${method}' within ${cancelSeconds(seconds)} s`
    : `answer '${method}' within ${limit}`;
  return new MgrpoError("deadline", `the engine did not ${fault}`, { retryable: true });
}
