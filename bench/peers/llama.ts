/**
 * @file Sampling alone with llama.cpp, through node-llama-cpp, which is no dependency of this project: it is imported from the folder that it was installed
 * in. All sequences share a context and decode in one batch. As a process (laps.ts): `llama.js <work.json> <file.gguf> <folder of node_modules>`.
 */
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { sum } from "../../core/statistics.ts";
import { answerLaps, readWork } from "./laps.ts";
import { decodingPrompts } from "./work.ts";

/** What is used of node-llama-cpp 3. */
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
const { threads, seed, ...work } = readWork(path);
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
  const prompts = decodingPrompts({ threads, seed, ...work }, lap);
  const start = performance.now();
  const counts = await Promise.all(
    sequences.map((sequence, i) => generate(sequence, prompts[i] ?? [], lap * prompts.length + i)),
  );
  const seconds = (performance.now() - start) / 1000;
  return { seconds, samplingSeconds: seconds, sampledTokens: sum(counts), entropy: null };
});

/** The number of tokens sampled from the whole distribution at temperature 1. */
async function generate(sequence: LlamaSequence, prompt: readonly number[], draw: number): Promise<number> {
  await sequence.clearHistory();
  const options = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: seed + draw, yieldEogToken: true };
  let count = 0;
  for await (const _token of sequence.evaluate(prompt, options)) if (++count === newTokens) break;
  return count;
}
