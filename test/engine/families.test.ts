/**
 * @file Every model family computes what transformers computes, in both engines, when they score and when they sample. Memory-mapped weights
 * give the same samples as weights in memory.
 */
import { expect, test } from "vitest";
import type { CheckpointFiles, PolicyEngine } from "../../core/ports.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { eagerEngine } from "../../engine/eager/engine.ts";
import { checkpointFiles, checkpointNames, localFiles, referenceOf } from "../fixtures/checkpoints.ts";
import { OPTIONS } from "./tiny.ts";

const TOLERANCE = 1e-4;
const ENGINES: [string, PolicyEngine][] = [
  ["compiled", compiledEngine],
  ["eager", eagerEngine],
];
const options = { ...OPTIONS, contextTokens: 64, microBatchTokens: 4096 };

test.each(ENGINES.flatMap(([label, engine]) => checkpointNames.map((name) => [label, name, engine] as const)))(
  "%s, %s: log-probs and greedy samples match transformers",
  async (_label, name, engine) => {
    const files = checkpointFiles(name);
    const { sequences, logProbs, next, greedy } = referenceOf(name);
    const [first = []] = sequences;
    const trainer = await engine.openTrainer(files, options);
    const everyNext = next.map((_, token) => [...first, token]);
    // The eager engine is slow: it does not score every next token.
    const scored = engine === eagerEngine ? sequences : [...sequences, ...everyNext];
    const rows = await trainer.logProbs(scored, 1);
    logProbs.forEach((expected, s) => {
      expect(largestDifference([...(rows[s] ?? [])].slice(1), expected)).toBeLessThan(TOLERANCE);
    });
    const ends = rows.slice(sequences.length).map((row) => row.at(-1) ?? 0);
    if (ends.length > 0) expect(largestDifference(ends, next)).toBeLessThan(TOLERANCE);
    await trainer.close();

    const sampler = await engine.openSampler(files, options);
    const sample = await sampler.sample({
      sequence: name,
      tokens: first,
      maxTokens: greedy.tokens.length,
      stop: [],
      sampling: { temperature: 0, topP: 1, topK: 0 },
      stream: [name],
    });
    expect(sample.tokens).toEqual(greedy.tokens);
    expect(largestDifference(sample.logProbs, greedy.logProbs)).toBeLessThan(TOLERANCE);
    await sampler.close();
  },
);

test.each(["qwen3", "qwen2-sharded", "llama3-tied-bf16"])(
  "%s: a sampler gives the same bits from memory-mapped files as from files in memory",
  async (name) => {
    const [first = []] = referenceOf(name).sequences;
    const sampleFrom = async (files: CheckpointFiles) => {
      const sampler = await compiledEngine.openSampler(files, options);
      const sampling = { temperature: 1, topP: 1, topK: 0 };
      const sample = await sampler.sample({
        sequence: name,
        tokens: first,
        maxTokens: 12,
        stop: [],
        sampling,
        stream: [name],
      });
      await sampler.close();
      return sample;
    };
    expect(await sampleFrom(localFiles(name))).toEqual(await sampleFrom(checkpointFiles(name)));
  },
);

function largestDifference(found: readonly number[], expected: readonly number[]): number {
  expect(found).toHaveLength(expected.length);
  return Math.max(...expected.map((value, i) => Math.abs(value - (found[i] ?? Number.NaN))));
}
