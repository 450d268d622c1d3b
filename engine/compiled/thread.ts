/**
 * @file The program's side of an engine thread. The thread is started by the first call, kept for all later ones (its graphs are
 * compiled once), and keeps the process alive only while a call is open.
 */
import { Worker } from "node:worker_threads";
import { builtModule } from "../../built-module.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Call, FromThread, ToThread } from "./protocol.ts";

interface Open {
  readonly resolve: (value: never) => void;
  readonly reject: (error: MgrpoError) => void;
}

export class EngineThread {
  #worker: Worker | undefined;
  #calls = 0;
  #handles = 0;
  readonly #open = new Map<number, Open>();

  /** A number for a sampler or trainer to be opened in this thread. */
  newHandle(): number {
    return this.#handles++;
  }

  call<T>(handle: number, body: Call, signal?: AbortSignal): Promise<T> {
    if (signal?.aborted)
      return Promise.reject(new MgrpoError("cancelled", `${body.method} was cancelled by its caller`));
    const call = this.#calls++;
    return new Promise<T>((resolve, reject) => {
      const cancel = () => this.#post({ kind: "cancel", call });
      const ended = () => {
        signal?.removeEventListener("abort", cancel);
        this.#open.delete(call);
        if (this.#open.size === 0) this.#worker?.unref();
      };
      this.#open.set(call, {
        resolve: (value) => {
          ended();
          resolve(value);
        },
        reject: (error) => {
          ended();
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
      if (message.kind === "result") this.#open.get(message.call)?.resolve(message.value as never);
      else {
        const { code, message: text, retryable, evidence } = message.error;
        this.#open.get(message.call)?.reject(new MgrpoError(code, text, { retryable, evidence }));
      }
    });
    const died = (reason: string) => {
      if (this.#worker === worker) this.#worker = undefined;
      const error = new MgrpoError("worker-unavailable", `the engine thread ended: ${reason}`, { retryable: true });
      for (const open of [...this.#open.values()]) open.reject(error);
    };
    worker.on("error", (error) => died(error instanceof Error ? error.message : String(error)));
    worker.on("exit", (code) => died(`exit code ${code}`));
    worker.unref();
    return worker;
  }
}
