/**
 * @file Sampling alone on our engine, with a fresh adapter, as in training. As a process (laps.ts): `sample.js <work.json> <model folder> <fp32, int8 or int4>`.
 */
import { Quantization } from "../../core/contracts/engine.ts";
import { sum } from "../../core/statistics.ts";
import { openSampler, readCheckpoint, withLora } from "../../engine/index.ts";
import { answerLaps, readWork } from "./laps.ts";
import { entropyOf, sampleAfter } from "./step.ts";
import { decodingPrompts } from "./work.ts";

const [, , path = "", model = "", form = ""] = process.argv;
const work = readWork(path);
const { promptTokens, newTokens } = work.decoding;
const sampler = await openSampler(withLora(await readCheckpoint(model), "base", ["peers", work.seed], work.lora), {
  threads: work.threads,
  dedicated: true,
  slots: work.prompts.length,
  contextTokens: promptTokens + newTokens,
  quantization: Quantization.parse(form === "fp32" ? "none" : form),
});
await answerLaps(async (lap) => {
  const start = performance.now();
  const samples = await Promise.all(
    decodingPrompts(work, lap).map(async (tokens, i) => {
      const sample = await sampleAfter(sampler, tokens, newTokens, `${lap}/${i}`);
      sampler.release(`${lap}/${i}`);
      return sample;
    }),
  );
  const seconds = (performance.now() - start) / 1000;
  const sampledTokens = sum(samples.map(({ tokens }) => tokens.length));
  return { seconds, samplingSeconds: seconds, sampledTokens, entropy: entropyOf(samples) };
});
await sampler.close();
