/** @file engine.gpu.lora.*: a model of Qwen3-0.6B's shape with an adapter of rank 16, sampled and trained on a device. */
import type { CheckpointFiles, EngineOptions } from "../core/ports.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import type { Device } from "./gpu-figures.ts";
import type { Measurement } from "./measurement.ts";
import { QWEN3_06B } from "./qwen3/model.ts";
import {
  LORA,
  NEW_TOKENS,
  OPTIONS,
  PROMPT_TOKENS,
  SAMPLED_SEQUENCES,
  TRAINED_SEQUENCES,
  timeSampling,
  timeTrainStep,
} from "./qwen3/work.ts";

/** Tokens/s of sampling, prefill included, and of a training step. Both run once before they are measured. */
export async function measureLora(files: CheckpointFiles, { provider, precision }: Device): Promise<Measurement[]> {
  const options: EngineOptions = { ...OPTIONS, provider, precision };
  // The sampler stays open while the trainer works, as in a worker.
  const sampler = await compiledEngine.openSampler(files, options);
  const trainer = await compiledEngine.openTrainer(files, options);
  const sampling = async () => {
    const seconds = await timeSampling(sampler, QWEN3_06B, NEW_TOKENS);
    for (let i = 0; i < SAMPLED_SEQUENCES; i++) sampler.release(String(i));
    return seconds;
  };
  const training = () => timeTrainStep(trainer, QWEN3_06B, OPTIONS.contextTokens);
  try {
    await sampling();
    const sampled = (SAMPLED_SEQUENCES * NEW_TOKENS) / (await sampling());
    await training();
    const trained = (TRAINED_SEQUENCES * OPTIONS.contextTokens) / (await training());
    const config = { model: "Qwen3-0.6B's shape", rank: LORA.rank, provider, precision };
    return [
      figure("sample", sampled, {
        ...config,
        sequences: SAMPLED_SEQUENCES,
        prompt: PROMPT_TOKENS,
        newTokens: NEW_TOKENS,
      }),
      figure("train", trained, { ...config, sequences: TRAINED_SEQUENCES, tokens: OPTIONS.contextTokens }),
    ];
  } finally {
    await Promise.all([sampler.close(), trainer.close()]);
  }
}

function figure(name: string, rate: number, config: object): Measurement {
  return { name: `engine.gpu.lora.${name}`, value: Math.round(rate), unit: "tokens/s", config };
}
