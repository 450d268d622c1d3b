/**
 * @file Proxies of the samplers and trainers in engine threads. When a thread ends, its samplers and trainers are lost. The next call reopens a
 * sampler, and a trainer whose state still matches its files. Calls to a trainer whose state may have changed reject with `replay-failed` until
 * a `load` succeeds: its gradient and weights are gone.
 */
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles, EngineLimits, Sampler } from "../../core/ports.ts";
import { withoutOptimizer } from "../checkpoint/shards.ts";
import type { LaneOptions } from "./lanes.ts";
import type { EngineCall } from "./protocol.ts";
import { CANCEL_SECONDS, type EngineThread } from "./thread.ts";
import type { LaneTrainer } from "./training/lane-trainer.ts";

/** The call that opens a sampler or trainer. */
type OpenCall = Extract<EngineCall, { readonly method: "openSampler" | "openTrainer" }>;

/** Stands for one sampler or trainer in a thread. */
class ThreadProxy {
  readonly #thread: EngineThread;
  readonly #handle: number;
  #openCall: OpenCall;
  /** The generation of the thread in which it is open. */
  #generation = -1;
  #opening: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(thread: EngineThread, openCall: OpenCall) {
    this.#thread = thread;
    this.#handle = thread.newHandle();
    this.#openCall = openCall;
  }

  get isLost(): boolean {
    return this.#generation !== this.#thread.generation;
  }

  /** Opens it, unless it is already open in the thread. */
  async open(): Promise<void> {
    if (!this.isLost) return;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    await this.#opening;
  }

  async #open(): Promise<void> {
    const { generation } = this.#thread;
    await this.call(this.#openCall);
    this.#generation = generation;
  }

  /**
   * Call this when the trainer's state may differ from its files: the trainer is then reopened only to load other
   * files, which have their own optimizer state.
   */
  dropOptimizerState(): void {
    this.#openCall = { ...this.#openCall, files: withoutOptimizer(this.#openCall.files) };
  }

  call<T>(body: EngineCall): Promise<T> {
    return this.#thread.call<T>(this.#handle, body, { seconds: this.#limits?.trainingSeconds });
  }

  sample: Sampler["sample"] = (request, signal) =>
    this.#thread.call(this.#handle, { method: "sample", request }, { signal, seconds: this.#limits?.turnSeconds });

  get #limits(): EngineLimits | undefined {
    return this.#openCall.options.limits;
  }

  release(sequence: string): void {
    if (!this.isLost) this.#thread.release(this.#handle, sequence);
  }

  /** Waits for an opening in progress. No-op if the thread has ended, which closed it. Safe to repeat. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // The call that waits for the opening reports its failure.
    if (this.#opening) await this.#opening.catch(() => {});
    if (this.isLost) return;
    const seconds = this.#limits && Math.min(this.#limits.trainingSeconds, CANCEL_SECONDS);
    await this.#thread.call(this.#handle, { method: "close" }, { seconds }).catch((error: unknown) => {
      if (!this.isLost) throw error;
    });
  }
}

export async function openThreadSampler(
  thread: EngineThread,
  files: CheckpointFiles,
  options: LaneOptions,
): Promise<Sampler> {
  const proxy = new ThreadProxy(thread, { method: "openSampler", files, options });
  await proxy.open();
  let isClosed = false;
  const refuseIfClosed = (sequence: string) => {
    if (isClosed) throw new MgrpoError("canceled", `sampling of '${sequence}' was canceled`);
  };
  return {
    async sample(request, signal) {
      refuseIfClosed(request.sequence);
      if (proxy.isLost) {
        await proxy.open();
        // It may have been closed in the meantime.
        refuseIfClosed(request.sequence);
      }
      return proxy.sample(request, signal);
    },
    release: (sequence) => proxy.release(sequence),
    close() {
      isClosed = true;
      return proxy.close();
    },
  };
}

export async function openThreadTrainer(
  thread: EngineThread,
  files: CheckpointFiles,
  options: LaneOptions,
): Promise<LaneTrainer> {
  const proxy = new ThreadProxy(thread, { method: "openTrainer", files, options });
  await proxy.open();
  /** Whether the trainer's state may differ from its files. */
  let isChanged = false;
  /** Whether the changed state was lost with its thread and no other state has been loaded since. */
  let isStateLost = false;
  const markChanged = () => {
    if (!isChanged) proxy.dropOptimizerState();
    isChanged = true;
  };
  const noteLoss = () => {
    if (proxy.isLost && isChanged) isStateLost = true;
  };
  const call = async <T>(body: EngineCall): Promise<T> => {
    noteLoss();
    if (isStateLost) {
      const fault = "the engine thread ended, and with it the trainer's weights and gradient";
      throw new MgrpoError("replay-failed", `${fault}: load a checkpoint and repeat the step`);
    }
    await proxy.open();
    if (body.method !== "logProbs") markChanged();
    return proxy.call<T>(body);
  };
  return {
    logProbs: (sequences, temperature) => call({ method: "logProbs", sequences, temperature }),
    forwardBackward: (batch, loss, temperature) => call({ method: "forwardBackward", batch, loss, temperature }),
    takeGradient: () => call({ method: "takeGradient" }),
    optimizerStep: (config, scale, gradients) => call({ method: "optimizerStep", config, scale, gradients }),
    gradientNorm: (gradients) => call({ method: "gradientNorm", gradients }),
    weights: () => call({ method: "weights" }),
    setWeights: (weights) => call({ method: "setWeights", weights }),
    savedFile: (index) => call({ method: "savedFile", index }),
    async load(from) {
      noteLoss();
      await proxy.open();
      markChanged();
      await proxy.call({ method: "load", files: from });
      isStateLost = false;
    },
    close: () => proxy.close(),
  };
}
