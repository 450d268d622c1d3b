/**
 * @file The compiled engine: the model traced to ONNX and run by onnxruntime, in its own threads. Sampling and training use separate
 * threads, however many samplers and trainers are open, so that an evaluation can sample while the trainer is busy.
 */
import type { CheckpointFiles, EngineOptions, PolicyEngine } from "../../core/ports.ts";
import { readAdapterConfig } from "../checkpoint/adapter.ts";
import { checkContext, readModelConfig } from "../checkpoint/config.ts";
import { divideOptions, type LaneOptions } from "./lanes.ts";
import { storedWeights } from "./open-weights.ts";
import { resolvePacking } from "./packing.ts";
import type { ProviderDecision } from "./providers.ts";
import { laneSampler } from "./sampling/lane-sampler.ts";
import { openSampler, openTrainer } from "./session.ts";
import { EngineThread } from "./thread.ts";
import { assignBatch } from "./training/batch-plan.ts";
import { dataParallel } from "./training/data-parallel.ts";

const samplingThreads: EngineThread[] = [];
const trainingThreads: EngineThread[] = [];
/** The only thread that uses the GPU: onnxruntime's WebGPU device crashes the process when two threads use it. */
const gpuThread = new EngineThread();
const decisions = new Map<string, Promise<ProviderDecision>>();

export const compiledEngine: PolicyEngine = {
  async openSampler(files, options) {
    return laneSampler(await openLanes(samplingThreads, openSampler, files, options));
  },
  async openTrainer(files, options) {
    const config = readModelConfig(files);
    const lanes = await openLanes(trainingThreads, openTrainer, files, options);
    return dataParallel(lanes, (sequences, count) => assignBatch(sequences, count, config, options));
  },
  computesOn: async (options) => (await decideProvider(options)).reason,
};

type OpenLane<T> = (thread: EngineThread, files: CheckpointFiles, options: LaneOptions) => Promise<T>;

async function openLanes<T>(
  threads: EngineThread[],
  openLane: OpenLane<T>,
  files: CheckpointFiles,
  options: EngineOptions,
) {
  checkContext(files, options.contextTokens);
  const { provider } = await decideProvider(options);
  const packsWeights = packingOf(files, { ...options, provider }) === "on";
  const { lanes, each } = divideOptions(files, { ...options, provider, packsWeights });
  if (provider !== "cpu") return [await openLane(gpuThread, files, each)];
  while (threads.length < lanes) threads.push(new EngineThread());
  return Promise.all(threads.slice(0, lanes).map((thread) => openLane(thread, files, each)));
}

function packingOf(files: CheckpointFiles, options: EngineOptions): "on" | "off" {
  const config = readModelConfig(files);
  const lora = readAdapterConfig(files)?.lora ?? null;
  return resolvePacking(config, lora, options, storedWeights(files, config));
}

async function decideProvider({
  provider: choice = "cpu",
  precision = "fp32",
}: EngineOptions): Promise<ProviderDecision> {
  if (choice === "cpu") return { provider: "cpu", reason: "cpu" };
  const key = `${choice} ${precision}`;
  const known = decisions.get(key);
  if (known) return known;
  const deciding = gpuThread.call<ProviderDecision>(gpuThread.newHandle(), {
    method: "decideProvider",
    choice,
    precision,
  });
  decisions.set(key, deciding);
  deciding.catch(() => decisions.delete(key));
  return deciding;
}
