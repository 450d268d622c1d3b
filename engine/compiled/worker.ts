/**
 * @file The thread an engine computes in: opens samplers and trainers and answers calls on them. A run of the graph blocks this
 * thread and no other. Calls on a trainer are served one after the other; samples run together.
 */
import { parentPort } from "node:worker_threads";
import { isMgrpoError } from "../../core/errors.ts";
import type { Sampler } from "../../core/ports.ts";
import type { EngineCall, FromThread, PortableError, ToThread } from "./protocol.ts";
import { openCompiledSampler } from "./sampling/sampler.ts";
import type { LaneTrainer } from "./training/lane-trainer.ts";

const port = parentPort;
if (!port) throw new Error("engine/compiled/worker.ts runs as a worker thread only");

const samplers = new Map<number, Sampler>();
const trainers = new Map<number, LaneTrainer>();
const queues = new Map<number, Promise<unknown>>();
const cancellations = new Map<number, AbortController>();

const send = (message: FromThread, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer);

port.on("message", (message: ToThread) => {
  if (message.kind === "cancel") cancellations.get(message.call)?.abort();
  else if (message.kind === "release") samplers.get(message.handle)?.release(message.sequence);
  else void answer(message.call, message.handle, message.body);
});

async function answer(call: number, handle: number, body: EngineCall): Promise<void> {
  const cancellation = new AbortController();
  cancellations.set(call, cancellation);
  try {
    const value = await (body.method === "sample"
      ? samplerOf(handle).sample(body.request, cancellation.signal)
      : inTurn(handle, () => serve(handle, body)));
    send({ kind: "result", call, value }, buffersOf(value));
  } catch (error) {
    send({ kind: "error", call, error: portable(error) });
  } finally {
    cancellations.delete(call);
  }
}

function inTurn<T>(handle: number, work: () => Promise<T>): Promise<T> {
  const turn = (queues.get(handle) ?? Promise.resolve()).then(work, work);
  queues.set(
    handle,
    turn.catch(() => {}),
  );
  return turn;
}

async function serve(handle: number, body: EngineCall): Promise<unknown> {
  switch (body.method) {
    case "openSampler":
      samplers.set(handle, await openCompiledSampler(body.files, body.options));
      return undefined;
    case "openTrainer": {
      // Gradients are a large library: samplers do without.
      const { openLaneTrainer } = await import("./training/lane-trainer.ts");
      trainers.set(handle, openLaneTrainer(body.files, body.options));
      return undefined;
    }
    case "chooseProvider": {
      const { chooseProvider } = await import("./providers.ts");
      return chooseProvider(body.choice, body.precision);
    }
    case "close":
      await (samplers.get(handle) ?? trainerOf(handle)).close();
      samplers.delete(handle);
      trainers.delete(handle);
      queues.delete(handle);
      return undefined;
    case "sample":
      throw new Error("samples are not served in turn");
    default:
      return train(trainerOf(handle), body);
  }
}

type TrainerCall = Exclude<
  EngineCall,
  { method: "openSampler" | "openTrainer" | "chooseProvider" | "close" | "sample" }
>;

function train(trainer: LaneTrainer, body: TrainerCall): Promise<unknown> {
  switch (body.method) {
    case "logProbs":
      return trainer.logProbs(body.sequences, body.temperature);
    case "forwardBackward":
      return trainer.forwardBackward(body.batch, body.loss, body.temperature);
    case "optimizerStep":
      return trainer.optimizerStep(body.config, body.scale, body.gradients);
    case "takeGradient":
      return trainer.takeGradient();
    case "weights":
      return trainer.weights();
    case "setWeights":
      return trainer.setWeights(body.weights);
    case "save":
      return trainer.save();
    case "load":
      return trainer.load(body.files);
  }
}

function samplerOf(handle: number): Sampler {
  const sampler = samplers.get(handle);
  if (!sampler) throw new Error(`sampler ${handle} is closed`);
  return sampler;
}

function trainerOf(handle: number): LaneTrainer {
  const trainer = trainers.get(handle);
  if (!trainer) throw new Error(`trainer ${handle} is closed`);
  return trainer;
}

/** Files and vectors are made for the caller alone: they move instead of being copied. */
function buffersOf(value: unknown): ArrayBuffer[] {
  const made = value instanceof Map ? [...value.values()] : [value];
  return made.flatMap((array) => (ArrayBuffer.isView(array) ? [array.buffer as ArrayBuffer] : []));
}

function portable(error: unknown): PortableError {
  if (isMgrpoError(error)) {
    const { code, message, retryable, evidence } = error;
    return { code, message, retryable, evidence };
  }
  const message = `the engine failed: ${error instanceof Error ? error.message : String(error)}`;
  return { code: "engine-unsupported", message, retryable: false, evidence: undefined };
}
