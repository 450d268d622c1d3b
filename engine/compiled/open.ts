/**
 * @file Opens samplers and trainers: the model traced to ONNX and run by onnxruntime, in threads. On the CPU, all samplers share one set of
 * threads and all trainers another, so that an evaluation can sample while the trainer is busy. A GPU has one thread for both.
 */
import type { CheckpointFiles, EngineOptions, Sampler, Trainer } from "../../core/ports.ts";
import { readAdapterConfig } from "../checkpoint/adapter.ts";
import { checkContext, readModelConfig } from "../checkpoint/config.ts";
import { withoutOptimizer } from "../checkpoint/shards.ts";
import { closable } from "../model/closable.ts";
import { gpuThread, providerDecision } from "./device.ts";
import { allOrNone, type LaneOptions, laneCount, optionsOfLane } from "./lanes.ts";
import { openQuantized } from "./open-quantized.ts";
import { storedWeights } from "./open-weights.ts";
import { checkQuantization } from "./quantization/check.ts";
import { bitsOf } from "./quantization/quantized-base.ts";
import { laneSampler } from "./sampling/lane-sampler.ts";
import { useSpareMemory } from "./spare-memory.ts";
import { EngineThread } from "./thread.ts";
import { openThreadSampler, openThreadTrainer } from "./thread-proxies.ts";
import { assignBatch } from "./training/batch-plan.ts";
import { dataParallel } from "./training/data-parallel.ts";

const threadsOf = { sampling: [] as EngineThread[], training: [] as EngineThread[] };

export async function openSamplerOnLanes(files: CheckpointFiles, options: EngineOptions): Promise<Sampler> {
  return laneSampler(await openLanes("sampling", openThreadSampler, files, options));
}

export async function openTrainerOnLanes(files: CheckpointFiles, options: EngineOptions): Promise<Trainer> {
  const config = readModelConfig(files);
  const lanes = await openLanes("training", openThreadTrainer, files, options);
  return closable(dataParallel(lanes, (sequences, count) => assignBatch(sequences, count, config, options)));
}

type OpenLane<T> = (thread: EngineThread, files: CheckpointFiles, options: LaneOptions) => Promise<T>;

async function openLanes<T extends { close(): Promise<void> }>(
  work: keyof typeof threadsOf,
  openLane: OpenLane<T>,
  files: CheckpointFiles,
  options: EngineOptions,
) {
  checkContext(files, options.contextTokens);
  const { provider } = await providerDecision(options);
  const resolved = resolveMemory(files, { ...options, provider });
  const lanes = resolved.lanes[work];
  const each = optionsOfLane(resolved.options, lanes);
  if (provider !== "cpu") return [await openLane(gpuThread, files, each)];
  const threads = threadsOf[work];
  while (threads.length < lanes) threads.push(new EngineThread());
  const [first] = threads as [EngineThread];
  const bits = bitsOf(options.quantization);
  const quantized = bits && (await openQuantized(first, files, bits, options.limits?.trainingSeconds));
  const laneOptions = quantized ? { ...each, quantized } : each;
  // Only the first lane of a trainer reads the optimizer's state (data-parallel.ts).
  const filesOf = (lane: number) => (lane === 0 ? files : withoutOptimizer(files));
  return allOrNone(threads.slice(0, lanes).map((thread, lane) => openLane(thread, filesOf(lane), laneOptions)));
}

/** Decides what the machine's memory allows. Refuses a base that cannot be packed or quantized as the options ask. */
function resolveMemory(files: CheckpointFiles, options: EngineOptions & Pick<LaneOptions, "provider">) {
  const config = readModelConfig(files);
  const lora = readAdapterConfig(files)?.lora ?? null;
  const stored = storedWeights(files, config);
  checkQuantization(config, lora, options, stored);
  const { weightPacking, gradientCheckpointing, samplingLanes } = useSpareMemory(config, lora, options, stored);
  const resolved: LaneOptions = { ...options, gradientCheckpointing, packsWeights: weightPacking === "on" };
  return { options: resolved, lanes: { sampling: samplingLanes, training: laneCount(config, options) } };
}
