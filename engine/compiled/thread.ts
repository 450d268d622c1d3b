/**
 * @file The main thread's side of an engine thread. The thread starts with the first call and is reused by all later ones, so its graphs are
 * compiled once. It keeps the process alive only while a call is open.
 */
import { Worker } from "node:worker_threads";
import { builtModule } from "../../built-module.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { EngineCall, FromThread, ToThread } from "./protocol.ts";

interface OpenCall {
  readonly resolve: (value: never) => void;
  readonly reject: (error: MgrpoError) => void;
}

export class EngineThread {
  #worker: Worker | undefined;
  #calls = 0;
  #handles = 0;
  readonly #openCalls = new Map<number, OpenCall>();

  /** A handle for a sampler or trainer that is about to be opened in this thread. */
  newHandle(): number {
    return this.#handles++;
  }

  call<T>(handle: number, body: EngineCall, signal?: AbortSignal): Promise<T> {
    if (signal?.aborted)
      return Promise.reject(new MgrpoError("cancelled", `${body.method} was cancelled by its caller`));
    const call = this.#calls++;
    return new Promise<T>((resolve, reject) => {
      const cancel = () => this.#post({ kind: "cancel", call });
      const settle = () => {
        signal?.removeEventListener("abort", cancel);
        this.#openCalls.delete(call);
        if (this.#openCalls.size === 0) this.#worker?.unref();
      };
      this.#openCalls.set(call, {
        resolve: (value) => {
          settle();
          resolve(value);
        },
        reject: (error) => {
          settle();
          reject(error);
        },
      });
      signal?.addEventListener("abort", cancel, { once: true });
      this.#post({ kind: "call", call, handle, body });
      this.#worker?.ref();
    });
  }

  release(handle: number, sequence: string): void {
    this.#post({ kind: "release", handle, sequence });
  }

  #post(message: ToThread): void {
    this.#worker ??= this.#start();
    this.#worker.postMessage(message);
  }

  #start(): Worker {
    const worker = new Worker(builtModule("engine/compiled/worker"), { execArgv: [] });
    worker.on("message", (message: FromThread) => {
      if (message.kind === "result") this.#openCalls.get(message.call)?.resolve(message.value as never);
      else {
        const { code, message: text, retryable, evidence } = message.error;
        this.#openCalls.get(message.call)?.reject(new MgrpoError(code, text, { retryable, evidence }));
      }
    });
    const died = (reason: string) => {
      if (this.#worker === worker) this.#worker = undefined;
      const error = new MgrpoError("worker-unavailable", `the engine thread ended: ${reason}`, { retryable: true });
      for (const open of [...this.#openCalls.values()]) open.reject(error);
    };
    worker.on("error", (error) => died(error instanceof Error ? error.message : String(error)));
    worker.on("exit", (code) => died(`exit code ${code}`));
    worker.unref();
    return worker;
  }
}
