/**
 * @file Handles to samplers and trainers in engine threads. When a thread ends, its samplers and trainers are lost. The next call reopens a
 * sampler, and a trainer whose state still matches its files. Calls to a trainer whose state has changed reject with `replay-failed` until
 * `load` is called: its gradient and weights are gone.
 */
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles, EngineLimits, Sampler } from "../../core/ports.ts";
import { OPTIMIZER_TENSORS } from "../checkpoint/shards.ts";
import type { LaneOptions } from "./lanes.ts";
import type { EngineCall } from "./protocol.ts";
import { CANCEL_SECONDS, type EngineThread } from "./thread.ts";
import type { LaneTrainer } from "./training/lane-trainer.ts";

/** The call that opens a sampler or trainer. */
type Opening = Extract<EngineCall, { readonly method: "openSampler" | "openTrainer" }>;

/** One sampler or trainer in a thread. */
class Session {
  readonly #thread: EngineThread;
  readonly #handle: number;
  #opening: Opening;
  /** The generation of the thread in which it is open. */
  #generation = -1;
  #reopening: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(thread: EngineThread, opening: Opening) {
    this.#thread = thread;
    this.#handle = thread.newHandle();
    this.#opening = opening;
  }

  get isLost(): boolean {
    return this.#generation !== this.#thread.generation;
  }

  /** Opens it, unless it is already open in the thread. */
  async open(): Promise<void> {
    if (!this.isLost) return;
    this.#reopening ??= this.#open().finally(() => {
      this.#reopening = undefined;
    });
    await this.#reopening;
  }

  async #open(): Promise<void> {
    const { generation } = this.#thread;
    await this.call(this.#opening);
    this.#generation = generation;
  }

  /** From now on it is opened again only to load files, which bring their own moments: those of the first files are not kept. */
  forgetOptimizer(): void {
    const files = [...this.#opening.files].filter(([name]) => !OPTIMIZER_TENSORS.test(name));
    this.#opening = { ...this.#opening, files: new Map(files) };
  }

  call<T>(body: EngineCall): Promise<T> {
    return this.#thread.call<T>(this.#handle, body, { seconds: this.#limits?.trainingSeconds });
  }

  sample: Sampler["sample"] = (request, signal) =>
    this.#thread.call(this.#handle, { method: "sample", request }, { signal, seconds: this.#limits?.turnSeconds });

  get #limits(): EngineLimits | undefined {
    return this.#opening.options.limits;
  }

  release(sequence: string): void {
    if (!this.isLost) this.#thread.release(this.#handle, sequence);
  }

  /** Waits until it is open if it is being opened again. No-op if the thread has ended, which closed it. Safe to repeat. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // The call that opens it again reports a failure.
    if (this.#reopening) await this.#reopening.catch(() => {});
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
  const session = new Session(thread, { method: "openSampler", files, options });
  await session.open();
  let isClosed = false;
  const refuseIfClosed = (sequence: string) => {
    if (isClosed) throw new MgrpoError("canceled", `sampling of '${sequence}' was canceled`);
  };
  return {
    async sample(request, signal) {
      refuseIfClosed(request.sequence);
      if (session.isLost) {
        await session.open();
        // It may have been closed in the meantime.
        refuseIfClosed(request.sequence);
      }
      return session.sample(request, signal);
    },
    release: (sequence) => session.release(sequence),
    close() {
      isClosed = true;
      return session.close();
    },
  };
}

export async function openThreadTrainer(
  thread: EngineThread,
  files: CheckpointFiles,
  options: LaneOptions,
): Promise<LaneTrainer> {
  const session = new Session(thread, { method: "openTrainer", files, options });
  await session.open();
  /** Whether the trainer's state may differ from its files. */
  let isChanged = false;
  const markChanged = () => {
    if (!isChanged) session.forgetOptimizer();
    isChanged = true;
  };
  const call = async <T>(body: EngineCall): Promise<T> => {
    if (session.isLost && isChanged) {
      const fault = "the engine thread ended, and with it the trainer's weights and gradient";
      throw new MgrpoError("replay-failed", `${fault}: load a checkpoint and repeat the step`);
    }
    await session.open();
    if (body.method !== "logProbs") markChanged();
    return session.call<T>(body);
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
      await session.open();
      markChanged();
      await session.call({ method: "load", files: from });
    },
    close: () => session.close(),
  };
}
