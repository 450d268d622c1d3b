/**
 * @file The compiled engine: the model traced to ONNX and run by onnxruntime, in threads of its own. Threads that sample are not those
 * that train, whatever number of samplers and trainers is open, so that an evaluation can sample while the trainer is busy.
 */
import type { CheckpointFiles, EngineOptions, PolicyEngine, Sampler } from "../../core/ports.ts";
import { checkContext } from "../checkpoint/config.ts";
import { divide, type LaneOptions } from "./lanes.ts";
import type { ProviderDecision } from "./providers.ts";
import { laneSampler } from "./sampling/lane-sampler.ts";
import { EngineThread } from "./thread.ts";
import { dataParallel } from "./training/data-parallel.ts";
import type { LaneTrainer } from "./training/lane-trainer.ts";

const sampling: EngineThread[] = [];
const training: EngineThread[] = [];
/** All that a GPU computes: onnxruntime's WebGPU device crashes the process when two threads use it. */
const onGpu = new EngineThread();
const chosen = new Map<string, Promise<ProviderDecision>>();

export const compiledEngine: PolicyEngine = {
  async openSampler(files, options) {
    return laneSampler(await openLanes(sampling, openSampler, files, options));
  },
  async openTrainer(files, options) {
    return dataParallel(await openLanes(training, openTrainer, files, options));
  },
  computesOn: async (options) => (await choose(options)).why,
};

type Open<T> = (thread: EngineThread, files: CheckpointFiles, options: LaneOptions) => Promise<T>;

async function openLanes<T>(threads: EngineThread[], open: Open<T>, files: CheckpointFiles, options: EngineOptions) {
  checkContext(files, options.contextTokens);
  const { provider } = await choose(options);
  const { lanes, each } = divide(files, { ...options, provider });
  if (provider !== "cpu") return [await open(onGpu, files, each)];
  while (threads.length < lanes) threads.push(new EngineThread());
  return Promise.all(threads.slice(0, lanes).map((thread) => open(thread, files, each)));
}

async function choose({ provider: choice = "cpu", precision = "fp32" }: EngineOptions): Promise<ProviderDecision> {
  if (choice === "cpu") return { provider: "cpu", why: "cpu" };
  const key = `${choice} ${precision}`;
  const known = chosen.get(key);
  if (known) return known;
  const choosing = onGpu.call<ProviderDecision>(onGpu.newHandle(), { method: "chooseProvider", choice, precision });
  chosen.set(key, choosing);
  choosing.catch(() => chosen.delete(key));
  return choosing;
}

async function openSampler(thread: EngineThread, files: CheckpointFiles, options: LaneOptions): Promise<Sampler> {
  const handle = thread.newHandle();
  await thread.call(handle, { method: "openSampler", files, options });
  return {
    sample: (request, signal) => thread.call(handle, { method: "sample", request }, signal),
    release: (sequence) => thread.release(handle, sequence),
    close: () => thread.call(handle, { method: "close" }),
  };
}

async function openTrainer(thread: EngineThread, files: CheckpointFiles, options: LaneOptions): Promise<LaneTrainer> {
  const handle = thread.newHandle();
  await thread.call(handle, { method: "openTrainer", files, options });
  return {
    logProbs: (sequences, temperature) => thread.call(handle, { method: "logProbs", sequences, temperature }),
    forwardBackward: (batch, loss, temperature) =>
      thread.call(handle, { method: "forwardBackward", batch, loss, temperature }),
    takeGradient: () => thread.call(handle, { method: "takeGradient" }),
    optimizerStep: (config, scale, gradients) =>
      thread.call(handle, { method: "optimizerStep", config, scale, gradients }),
    weights: () => thread.call(handle, { method: "weights" }),
    setWeights: (weights) => thread.call(handle, { method: "setWeights", weights }),
    save: () => thread.call(handle, { method: "save" }),
    load: (from) => thread.call(handle, { method: "load", files: from }),
    close: () => thread.call(handle, { method: "close" }),
  };
}
