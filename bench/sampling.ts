/**
 * @file engine.decode: milliseconds to decode one token for each of 8 sequences, on a model of SmolLM2-135M's shape with an adapter of rank 16
 * on base weights in float32, int8 and int4, each packed or not; engine.decode.open: seconds to open the sampler. The six forms decode in turn, so
 * that other load on the machine affects all equally.
 */
import { LoraConfig } from "../core/contracts/lora.ts";
import type { EngineOptions, Sampler } from "../core/ports.ts";
import { median } from "../core/statistics.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { print } from "./measurement.ts";
import { writeRandomModel } from "./qwen3/model.ts";
import { withFreshAdapter } from "./qwen3/work.ts";
import { SMOLLM2_135M } from "./smollm2.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const [SEQUENCES, TOKENS, ROUNDS] = [8, 8, 3];
const OPTIONS: EngineOptions = { threads: 1, slots: SEQUENCES, contextTokens: 128, microBatchTokens: 1024 };
const LORA = LoraConfig.parse({});
const FORMS: Readonly<Record<string, Partial<EngineOptions>>> = {
  fp32: { weightPacking: "off" },
  "fp32-packed": { weightPacking: "on" },
  int8: { quantization: "int8", weightPacking: "off" },
  "int8-packed": { quantization: "int8", weightPacking: "on" },
  int4: { quantization: "int4", weightPacking: "off" },
  "int4-packed": { quantization: "int4", weightPacking: "on" },
};
const config = { model: "SmolLM2-135M's shape", rank: LORA.rank, sequences: SEQUENCES, threads: OPTIONS.threads };

const folder = temporaryFolder("bench-sampling");
const base = writeRandomModel(folder, SMOLLM2_135M, OPTIONS.contextTokens, "F32");
const files = withFreshAdapter(base, SMOLLM2_135M, LORA);
const samplers = new Map<string, Sampler>();
for (const [form, options] of Object.entries(FORMS)) {
  const start = performance.now();
  samplers.set(form, await compiledEngine.openSampler(files, { ...OPTIONS, ...options }));
  print("engine.decode.open", (performance.now() - start) / 1000, "s", { ...config, form });
}
const times = new Map([...samplers.keys()].map((form) => [form, [] as number[]]));
for (let round = 0; round <= ROUNDS; round++) {
  for (const [form, sampler] of samplers) {
    const milliseconds = await decode(sampler, `${round}`);
    // The first round warms up.
    if (round > 0) times.get(form)?.push(milliseconds);
  }
}
for (const [form, found] of times) print("engine.decode", median(found), "ms", { ...config, form });

/** Milliseconds per decoding step of all sequences, the prefill of their short prompts included. */
async function decode(sampler: Sampler, round: string): Promise<number> {
  const start = performance.now();
  await Promise.all(
    Array.from({ length: SEQUENCES }, async (_, i) => {
      const sequence = `${round}/${i}`;
      await sampler.sample({
        sequence,
        tokens: [i, i + 1],
        maxTokens: TOKENS,
        stop: [],
        sampling: { temperature: 1, topP: 1, topK: 0 },
        stream: ["bench", sequence],
      });
      sampler.release(sequence);
    }),
  );
  return (performance.now() - start) / TOKENS;
}
