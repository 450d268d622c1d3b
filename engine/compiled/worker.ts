/**
 * @file The entry of an engine thread: opens samplers and trainers and serves calls on them. A graph run blocks only this thread. Calls
 * on one trainer run one after the other; samples run concurrently.
 */
import { parentPort } from "node:worker_threads";
import { toPortable } from "../../core/portable-error.ts";
import type { Sampler, SavedFile } from "../../core/ports.ts";
import { closedTrainer } from "../model/closable.ts";
import { asEngineError } from "./engine-error.ts";
import type { EngineCall, FromThread, ToThread } from "./protocol.ts";
import { writeQuantizedBase } from "./quantization/quantized-base.ts";
import { openCompiledSampler } from "./sampling/sampler.ts";
import type { LaneTrainer } from "./training/lane-trainer.ts";

const port = parentPort;
if (!port) throw new Error("engine/compiled/worker.ts must run in a worker thread");

const samplers = new Map<number, Sampler>();
const trainers = new Map<number, LaneTrainer>();
const queues = new Map<number, Promise<unknown>>();
const cancellations = new Map<number, AbortController>();

const send = (message: FromThread, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer);

port.on("message", (message: ToThread) => {
  if (message.kind === "cancel") cancellations.get(message.call)?.abort();
  else if (message.kind === "release") samplers.get(message.handle)?.release(message.sequence);
  else void handleCall(message.call, message.handle, message.body);
});

async function handleCall(call: number, handle: number, body: EngineCall): Promise<void> {
  const cancellation = new AbortController();
  cancellations.set(call, cancellation);
  try {
    const value = await (body.method === "sample"
      ? samplerOf(handle).sample(body.request, cancellation.signal)
      : enqueue(handle, () => serve(handle, body)));
    send({ kind: "result", call, value }, transferablesOf(value));
  } catch (error) {
    send({ kind: "error", call, error: toPortable(asEngineError(error)) });
  } finally {
    cancellations.delete(call);
  }
}

function enqueue<T>(handle: number, work: () => Promise<T>): Promise<T> {
  const result = (queues.get(handle) ?? Promise.resolve()).then(work, work);
  queues.set(
    handle,
    result.catch(() => {}),
  );
  return result;
}

async function serve(handle: number, body: EngineCall): Promise<unknown> {
  switch (body.method) {
    case "openSampler":
      samplers.set(handle, await openCompiledSampler(body.files, body.options));
      return undefined;
    case "openTrainer": {
      // Loaded on demand: gradients need tfjs-layers, a large library that samplers do not use.
      const { openLaneTrainer } = await import("./training/lane-trainer.ts");
      trainers.set(handle, openLaneTrainer(body.files, body.options));
      return undefined;
    }
    case "quantize":
      return writeQuantizedBase(body.files, body.bits, body.path);
    case "close":
      await (samplers.get(handle) ?? trainerOf(handle)).close();
      samplers.delete(handle);
      trainers.delete(handle);
      queues.delete(handle);
      return undefined;
    case "sample":
      throw new Error("samples are not queued");
    default:
      return train(trainerOf(handle), body);
  }
}

type TrainerCall = Exclude<EngineCall, { method: "openSampler" | "openTrainer" | "quantize" | "close" | "sample" }>;

function train(trainer: LaneTrainer, body: TrainerCall): Promise<unknown> {
  switch (body.method) {
    case "logProbs":
      return trainer.logProbs(body.sequences, body.temperature);
    case "forwardBackward":
      return trainer.forwardBackward(body.batch, body.loss, body.temperature);
    case "optimizerStep":
      return trainer.optimizerStep(body.config, body.scale, body.gradients);
    case "gradientNorm":
      return trainer.gradientNorm(body.gradients);
    case "takeGradient":
      return trainer.takeGradient();
    case "weights":
      return trainer.weights();
    case "setWeights":
      return trainer.setWeights(body.weights);
    case "savedFile":
      return trainer.savedFile(body.index);
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
  if (!trainer) throw closedTrainer();
  return trainer;
}

const isSavedFile = (value: unknown): value is SavedFile => Array.isArray(value) && typeof value[0] === "string";

/** Buffers to transfer instead of copying: a returned file or vector belongs to the caller alone. */
function transferablesOf(value: unknown): ArrayBuffer[] {
  const array = isSavedFile(value) ? value[1] : value;
  return ArrayBuffer.isView(array) ? [array.buffer as ArrayBuffer] : [];
}
