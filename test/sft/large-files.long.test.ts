/**
 * @file The state of supervised training reads back a file of more than 2 GiB, such as the shard of one large embedding. Demonstrations may be
 * larger than a string.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { TINY_OPTIONS, tinyModel } from "../../engine/compiled/provider-check.ts";
import { openEngine } from "../../engine/index.ts";
import { openTrainingState } from "../../sft/state.ts";
import { trainAgent } from "../../sft/train-agent.ts";

test("a saved file of more than 2 GiB reads back", async () => {
  const folder = await mkdtemp(join(tmpdir(), "mgrpo-sft-large-"));
  try {
    const state = await openTrainingState(folder, {});
    const bytes = new Uint8Array(2 ** 31 + 1);
    bytes[2 ** 31] = 7;
    const progress = { losses: [1], tokens: 1, evaluations: [], best: 1, ended: null };
    await state.save(progress, new Map([["model.safetensors", bytes]]));
    const read = (await state.saved()?.newest())?.get("model.safetensors");
    expect(read?.length).toBe(bytes.length);
    expect(read?.at(-1)).toBe(7);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("training starts on demonstrations whose tokens, written as one text, are longer than a string can be", async () => {
  const folder = await mkdtemp(join(tmpdir(), "mgrpo-sft-large-"));
  // 90 x 6 MB; a string has at most 537 MB. Nothing is computed: the engine opens no trainer.
  const long = { tokens: new Array<number>(1_000_000).fill(10_000), turns: [[3, 6]] as [number, number][] };
  const engine = { ...openEngine("eager"), openTrainer: () => Promise.reject(new Error("no trainer")) };
  try {
    const training = trainAgent({
      ...{ agent: "main", seed: 1, base: tinyModel(), policy: "eager", engine, options: TINY_OPTIONS, batchTokens: 12 },
      examples: { training: new Array(90).fill(long), heldOut: [] },
      plan: { tokens: 72, learningRate: 0.05, warmUp: 0.1, evaluateEvery: 2, patience: 9 },
      ...{ folder: join(folder, "main"), stateFolder: join(folder, ".sft", "main") },
    });
    await expect(training).rejects.toThrow("no trainer");
  } finally {
    await rm(folder, { recursive: true });
  }
});
