/**
 * @file Sampling alone with llama.cpp, through node-llama-cpp, which is not a dependency of this project: it is imported from the folder where it is
 * installed. All sequences share a context and take every step together, so that they decode in one batch. As a process (laps.ts):
 * `llama.js <work.json> <file.gguf> <folder that contains node_modules>`.
 */
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { answerLaps, readWork } from "./laps.ts";
import { decodingPrompts } from "./work.ts";

/** The part of node-llama-cpp 3 that is used. */
interface LlamaModule {
  getLlama(options: { gpu: false; build: "never"; logLevel: "error"; maxThreads: number }): Promise<{
    loadModel(options: { modelPath: string }): Promise<{ createContext(options: object): Promise<LlamaContext> }>;
  }>;
}
interface LlamaContext {
  getSequence(): LlamaSequence;
}
interface LlamaSequence {
  clearHistory(): Promise<void>;
  evaluate(tokens: readonly number[], options: object): AsyncGenerator<number>;
}

const [, , path = "", modelPath = "", folder = ""] = process.argv;
const work = readWork(path);
const { threads, seed } = work;
const { promptTokens, newTokens } = work.decoding;
const entry = pathToFileURL(resolve(join(folder, "node_modules/node-llama-cpp/dist/index.js")));
const { getLlama }: LlamaModule = await import(entry.href);
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: threads });
const model = await llama.loadModel({ modelPath: resolve(modelPath) });
const context = await model.createContext({
  sequences: work.prompts.length,
  contextSize: promptTokens + newTokens,
  threads: { ideal: threads, min: threads },
});
const sequences = work.prompts.map(() => context.getSequence());
await answerLaps(async (lap) => {
  const prompts = decodingPrompts(work, lap);
  const start = performance.now();
  const sampledTokens = await generate(prompts, seed + lap * prompts.length);
  const seconds = (performance.now() - start) / 1000;
  return { seconds, samplingSeconds: seconds, sampledTokens, entropy: null };
});

/**
 * Samples from the full distribution at temperature 1. Returns the number of sampled tokens. No sequence requests its next token before all have the
 * current one: left to itself, node-llama-cpp decodes seven of eight sequences at a time, which takes more passes.
 */
async function generate(prompts: readonly (readonly number[])[], firstSeed: number): Promise<number> {
  await Promise.all(sequences.map((sequence) => sequence.clearHistory()));
  const options = { temperature: 1, topK: 0, topP: 1, minP: 0, yieldEogToken: true };
  const streams = sequences.map((sequence, i) =>
    sequence.evaluate(prompts[i] ?? [], { ...options, seed: firstSeed + i }),
  );
  let count = 0;
  for (let step = 0; step < newTokens; step++) {
    const results = await Promise.all(streams.map((stream) => stream.next()));
    count += results.filter(({ done }) => !done).length;
  }
  await Promise.all(streams.map((stream) => stream.return(undefined)));
  return count;
}
