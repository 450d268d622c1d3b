/**
 * @file Runs the rewards of a user's recipe in a thread, so that code that blocks (an endless loop, a regular expression that backtracks
 * for minutes) stops neither the other runs nor the store that share the process. The recipes of this repository run in the process.
 *
 *     call ──judgment or error──> settled
 *       └──aborted (its deadline)──> the thread is told ──still open after GRACE_SECONDS──> the thread is ended
 *
 * When the thread ends, every open call rejects with a retryable `judge-failed`; the next call starts a new thread.
 */
import { Worker } from "node:worker_threads";
import { builtModule } from "../built-module.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import type { Judgment } from "../core/contracts/judge.ts";
import { MgrpoError } from "../core/errors.ts";
import { fromPortable, toPortable } from "../core/portable-error.ts";
import type { Rewards, VerdictContext } from "../core/ports.ts";
import { isBundled, openRewards } from "./rewards.ts";
import type { FromRewards, RewardsCall, RewardsSource, ToRewards } from "./rewards-protocol.ts";

/** Seconds that rewards have to settle an aborted call. */
const GRACE_SECONDS = 2;

/** Seconds without a call after which the thread is ended. */
const IDLE_SECONDS = 60;

interface OpenCall {
  readonly context: VerdictContext | undefined;
  readonly resolve: (judgment: Judgment) => void;
  readonly reject: (error: Error) => void;
  /** Runs once the call is aborted. */
  timer?: NodeJS.Timeout;
}

/**
 * Opens rewards as `openRewards` does, those of a user's recipe in a thread, which all calls of a run share. `thread`: the module of
 * rewards-thread.ts; a function has a copy in the user's project.
 */
export function isolatedRewards(
  environment: RewardsSource["environment"],
  thread = builtModule("recipes/rewards-thread"),
): (config: RunConfig) => Promise<Rewards> {
  const opened = new Map<string, Promise<Rewards>>();
  return (config) => {
    if (isBundled(config.recipe)) return openRewards(config, environment);
    const rewards = opened.get(config.run) ?? new RewardsThread({ config, environment }, thread).open();
    opened.set(config.run, rewards);
    rewards.catch(() => opened.delete(config.run));
    return rewards;
  };
}

class RewardsThread {
  readonly #source: RewardsSource;
  readonly #module: URL;
  /** Undefined: it has not started, or has ended. */
  #thread: Promise<Thread> | undefined;
  #calls = 0;
  readonly #open = new Map<number, OpenCall>();
  #idle: NodeJS.Timeout | undefined;

  constructor(source: RewardsSource, module: URL) {
    this.#source = source;
    this.#module = module;
  }

  /** Rejects as `openRewards` does. */
  async open(): Promise<Rewards> {
    const { judge } = await this.#start();
    return {
      ...(judge !== undefined && { judge }),
      correct: (question, conversation, context) => this.#call({ method: "correct", question, conversation }, context),
      expert: (question, agent, conversation, context) =>
        this.#call({ method: "expert", question, agent, conversation }, context),
    };
  }

  #start(): Promise<Thread> {
    this.#thread ??= openThread(
      this.#module,
      this.#source,
      (worker, message) => this.#receive(worker, message),
      (error) => this.#end(error),
    );
    return this.#thread;
  }

  async #call(call: RewardsCall, context: VerdictContext | undefined): Promise<Judgment> {
    const { worker } = await this.#start();
    const id = this.#calls++;
    const settled = new Promise<Judgment>((resolve, reject) => this.#open.set(id, { context, resolve, reject }));
    clearTimeout(this.#idle);
    worker.ref();
    post(worker, { kind: "call", id, call, hasContext: context !== undefined });
    const abort = () => this.#abort(worker, id);
    if (context?.signal.aborted) abort();
    context?.signal.addEventListener("abort", abort, { once: true });
    try {
      return await settled;
    } finally {
      context?.signal.removeEventListener("abort", abort);
      this.#close(worker, id);
    }
  }

  #abort(worker: Worker, id: number): void {
    const call = this.#open.get(id);
    if (!call) return;
    post(worker, { kind: "abort", id });
    call.timer = setTimeout(() => void worker.terminate(), GRACE_SECONDS * 1000);
  }

  #close(worker: Worker, id: number): void {
    clearTimeout(this.#open.get(id)?.timer);
    this.#open.delete(id);
    if (this.#open.size > 0) return;
    worker.unref();
    this.#idle = setTimeout(() => void worker.terminate(), IDLE_SECONDS * 1000).unref();
  }

  #receive(worker: Worker, message: FromCall): void {
    const call = this.#open.get(message.id);
    if (message.kind === "reserve") void reserve(worker, message, call?.context);
    else if (message.kind === "judgment") call?.resolve(message.judgment);
    else call?.reject(fromPortable(message.error));
  }

  #end(error: Error): void {
    this.#thread = undefined;
    for (const call of this.#open.values()) call.reject(error);
  }
}

type FromCall = Exclude<FromRewards, { kind: "open" | "failed" }>;

interface Thread {
  readonly worker: Worker;
  readonly judge: string | undefined;
}

/** Resolves when the thread has opened the rewards; rejects if it cannot. `onEnd` is called once, when it has ended. */
function openThread(
  module: URL,
  source: RewardsSource,
  onMessage: (worker: Worker, message: FromCall) => void,
  onEnd: (error: Error) => void,
): Promise<Thread> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(module, { execArgv: [], workerData: source });
    let failure: Error = blocked();
    worker.on("message", (message: FromRewards) => {
      if (message.kind === "open") {
        worker.unref();
        resolve({ worker, judge: message.judge });
      } else if (message.kind === "failed") {
        failure = fromPortable(message.error);
        void worker.terminate();
      } else onMessage(worker, message);
    });
    worker.on("error", (cause) => {
      failure = crashed(cause);
    });
    worker.on("exit", () => {
      onEnd(failure);
      reject(failure);
    });
  });
}

const blocked = (): MgrpoError =>
  new MgrpoError("judge-failed", "the rewards did not return in time, and their thread was ended", { retryable: true });

const crashed = (cause: unknown): MgrpoError =>
  new MgrpoError("judge-failed", `the thread of the rewards crashed: ${String(cause)}`, { retryable: true, cause });

async function reserve(
  worker: Worker,
  { reservation, usd }: FromRewards & { kind: "reserve" },
  context: VerdictContext | undefined,
): Promise<void> {
  try {
    await context?.reserve(usd);
    post(worker, { kind: "reserved", reservation });
  } catch (error) {
    post(worker, { kind: "reserved", reservation, error: toPortable(error) });
  }
}

const post = (worker: Worker, message: ToRewards): void => worker.postMessage(message);
