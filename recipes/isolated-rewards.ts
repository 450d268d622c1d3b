/**
 * @file Runs the rewards of a user's recipe in a thread, so that code that blocks (an endless loop, a regular expression that backtracks for
 * minutes) does not block the other runs or the store in the same process. The rewards of this repository's recipes run on the calling thread.
 *
 *     open ──OPEN_SECONDS──> the thread is terminated
 *     call ──judgment or error──> settled
 *       └──aborted (deadline or caller)──> the thread is notified ──still pending after GRACE_SECONDS──> the thread is terminated
 *
 * When the thread ends, every pending call rejects with a retryable `judge-failed`. The next call starts a new thread, even while the old one
 * is still being terminated.
 */
import { Worker } from "node:worker_threads";
import { builtModule } from "../built-module.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import type { Judgment } from "../core/contracts/judge.ts";
import { canonicalJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import { fromPortable, toPortable } from "../core/portable-error.ts";
import type { Rewards, VerdictContext } from "../core/ports.ts";
import type { RewardsOpening } from "../core/recipe.ts";
import { isBundled, openRewards } from "./rewards.ts";
import type { FromRewards, RewardsCall, ToRewards } from "./rewards-protocol.ts";

/** The longest time that the rewards may take to open. */
const OPEN_SECONDS = 60;

/** Grace period for the rewards to settle an aborted call. */
const GRACE_SECONDS = 2;

/** Seconds without a call after which the thread is terminated, even if it was never called. */
const IDLE_SECONDS = 60;

/**
 * Like openRewards, but runs a user's recipe in a thread, one per config, not per run: a refused start may be repeated with another config
 * under the same run name. `thread`: the built rewards-thread.ts; on Lambda, the copy in the compiled project.
 */
export function isolatedRewards(
  environment: RewardsOpening["environment"],
  thread = builtModule("recipes/rewards-thread"),
): (config: RunConfig) => Promise<Rewards> {
  const opened = new Map<string, Promise<Rewards>>();
  return (config) => {
    if (isBundled(config.recipe)) return openRewards(config, environment);
    const key = canonicalJson(config);
    const rewards = opened.get(key) ?? new IsolatedRewards({ config, environment }, thread).open();
    opened.set(key, rewards);
    rewards.catch(() => opened.get(key) === rewards && opened.delete(key));
    return rewards;
  };
}

/** The rewards of one config. Starts a thread when a call finds none. */
class IsolatedRewards {
  readonly #source: RewardsOpening;
  readonly #module: URL;
  /** Undefined: none has started, or the last one has ended or is being terminated. */
  #thread: RewardsThread | undefined;

  constructor(source: RewardsOpening, module: URL) {
    this.#source = source;
    this.#module = module;
  }

  /** Rejects as `openRewards` does, and with a retryable `judge-failed` if the thread ends first. */
  async open(): Promise<Rewards> {
    const judge = await this.#liveThread().opened;
    return {
      ...(judge !== undefined && { judge }),
      correct: (question, conversation, context) => this.#call({ method: "correct", question, conversation }, context),
      expert: (question, agent, conversation, context) =>
        this.#call({ method: "expert", question, agent, conversation }, context),
    };
  }

  async #call(call: RewardsCall, context: VerdictContext | undefined): Promise<Judgment> {
    const thread = this.#liveThread();
    await thread.opened;
    // Nobody waits for an aborted call.
    context?.signal.throwIfAborted();
    return thread.call(call, context);
  }

  #liveThread(): RewardsThread {
    this.#thread ??= new RewardsThread(this.#module, this.#source, (ending) => {
      if (this.#thread === ending) this.#thread = undefined;
    });
    return this.#thread;
  }
}

interface PendingCall {
  readonly context: VerdictContext | undefined;
  readonly resolve: (judgment: Judgment) => void;
  readonly reject: (error: Error) => void;
  /** Set when the call is aborted: terminates the thread after GRACE_SECONDS. */
  timer?: NodeJS.Timeout;
}

class RewardsThread {
  /** Resolves with the judge's name once the rewards are open. Rejects if they cannot be opened. */
  readonly opened: Promise<string | undefined>;
  readonly #worker: Worker;
  /** Called when the thread takes no more calls: it has ended or is being terminated. */
  readonly #onEnding: (thread: RewardsThread) => void;
  /** Why it ends. Unless another cause is known, its own code has ended it. */
  #failure: Error = exited();
  #nextId = 0;
  readonly #pending = new Map<number, PendingCall>();
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(module: URL, source: RewardsOpening, onEnding: (thread: RewardsThread) => void) {
    this.#onEnding = onEnding;
    this.#worker = new Worker(module, { execArgv: [], workerData: source });
    this.opened = new Promise((resolve, reject) => {
      const deadline = setTimeout(() => this.#terminate(slow()), OPEN_SECONDS * 1000);
      this.#worker.on("message", (message: FromRewards) => {
        if (message.kind !== "open") return this.#receive(message);
        clearTimeout(deadline);
        this.#becomeIdle();
        resolve(message.judge);
      });
      this.#worker.on("error", (cause) => this.#end(crashed(cause)));
      this.#worker.on("exit", () => {
        clearTimeout(deadline);
        this.#end();
        for (const call of this.#pending.values()) call.reject(this.#failure);
        reject(this.#failure);
      });
    });
  }

  async call(call: RewardsCall, context: VerdictContext | undefined): Promise<Judgment> {
    const id = this.#nextId++;
    const settled = new Promise<Judgment>((resolve, reject) => this.#pending.set(id, { context, resolve, reject }));
    clearTimeout(this.#idleTimer);
    this.#worker.ref();
    this.#post({ kind: "call", id, call, hasContext: context !== undefined });
    const abort = () => this.#abort(id);
    context?.signal.addEventListener("abort", abort, { once: true });
    try {
      return await settled;
    } finally {
      context?.signal.removeEventListener("abort", abort);
      this.#close(id);
    }
  }

  #abort(id: number): void {
    const call = this.#pending.get(id);
    if (!call) return;
    this.#post({ kind: "abort", id });
    call.timer = setTimeout(() => this.#terminate(blocked()), GRACE_SECONDS * 1000);
  }

  #close(id: number): void {
    clearTimeout(this.#pending.get(id)?.timer);
    this.#pending.delete(id);
    if (this.#pending.size === 0) this.#becomeIdle();
  }

  /** Without a pending call, the thread does not keep the process alive, and its idle time begins. */
  #becomeIdle(): void {
    this.#worker.unref();
    this.#idleTimer = setTimeout(() => this.#terminate(), IDLE_SECONDS * 1000).unref();
  }

  #receive(message: Exclude<FromRewards, { kind: "open" }>): void {
    if (message.kind === "failed") {
      this.#terminate(fromPortable(message.error));
      return;
    }
    const call = this.#pending.get(message.id);
    if (message.kind === "reserve") void this.#reserve(message, call?.context);
    else if (message.kind === "judgment") call?.resolve(message.judgment);
    else call?.reject(fromPortable(message.error));
  }

  async #reserve(
    { reservation, usd }: FromRewards & { kind: "reserve" },
    context: VerdictContext | undefined,
  ): Promise<void> {
    try {
      if (!context) throw new MgrpoError("canceled", "the call has settled, so nothing is reserved for it");
      await context.reserve(usd);
      this.#post({ kind: "reserved", reservation });
    } catch (error) {
      this.#post({ kind: "reserved", reservation, error: toPortable(error) });
    }
  }

  #terminate(failure?: Error): void {
    this.#end(failure);
    void this.#worker.terminate();
  }

  #end(failure = this.#failure): void {
    this.#failure = failure;
    this.#onEnding(this);
  }

  #post(message: ToRewards): void {
    this.#worker.postMessage(message);
  }
}

const failed = (message: string, cause?: unknown): MgrpoError =>
  new MgrpoError("judge-failed", message, { retryable: true, cause });

const slow = (): MgrpoError =>
  failed(
    `the rewards did not open within ${OPEN_SECONDS} s: look for code in rewards.ts that blocks or waits as it loads`,
  );

const blocked = (): MgrpoError =>
  failed(
    "a call to the rewards did not return in time, so the thread that all of the run's calls share was terminated",
  );

const exited = (): MgrpoError => failed("the rewards ended their own thread: remove process.exit from their code");

const crashed = (cause: unknown): MgrpoError =>
  failed(`the thread that runs the rewards crashed: ${String(cause)}`, cause);
