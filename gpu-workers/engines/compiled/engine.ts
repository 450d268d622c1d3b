/**
 * @file The compiled engine: the model traced to ONNX and run by onnxruntime, in threads of its own. One thread samples and one trains,
 * whatever number of samplers and trainers is open, so that an evaluation can sample while the trainer is busy.
 */
import type { CheckpointFiles, EngineOptions, PolicyEngine, Sampler, Trainer } from "../../../core/ports.ts";
import { EngineThread } from "./thread.ts";

const sampling = new EngineThread();
const training = new EngineThread();

export const compiledEngine: PolicyEngine = {
  async openSampler(files: CheckpointFiles, options: EngineOptions): Promise<Sampler> {
    const { onBusy, ...plain } = options;
    const handle = sampling.newHandle((start, end) => onBusy?.({ kind: "sample", start, end }));
    await sampling.call(handle, { method: "openSampler", files, options: plain });
    return {
      sample: (request, signal) => sampling.call(handle, { method: "sample", request }, signal),
      release: (sequence) => sampling.release(handle, sequence),
      close: () => sampling.call(handle, { method: "close" }),
    };
  },

  async openTrainer(files: CheckpointFiles, options: EngineOptions): Promise<Trainer> {
    const { onBusy, ...plain } = options;
    const handle = training.newHandle((start, end) => onBusy?.({ kind: "train", start, end }));
    await training.call(handle, { method: "openTrainer", files, options: plain });
    return {
      logProbs: (sequences, temperature) => training.call(handle, { method: "logProbs", sequences, temperature }),
      forwardBackward: (batch, loss, temperature) =>
        training.call(handle, { method: "forwardBackward", batch, loss, temperature }),
      optimizerStep: (config) => training.call(handle, { method: "optimizerStep", config }),
      save: () => training.call(handle, { method: "save" }),
      load: (from) => training.call(handle, { method: "load", files: from }),
      close: () => training.call(handle, { method: "close" }),
    };
  },
};
