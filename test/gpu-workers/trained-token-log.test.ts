/** @file The log-probs of a step's trajectories, over several passes and up to the limit on their size. */
import { expect, test } from "vitest";
import { objectKeys } from "../../core/contracts/keys.ts";
import { readTrainedTokens } from "../../engine/trained-tokens.ts";
import type { RunContext } from "../../gpu-workers/run-context.ts";
import { TrainedTokenLog } from "../../gpu-workers/training/trained-token-log.ts";
import { memoryStore } from "../fakes/memory-store.ts";

const store = memoryStore();

/** What is stored of these trajectories. */
async function stored(log: TrainedTokenLog, ...names: string[]) {
  const key = objectKeys.trainedTokens("test", 3, "main");
  await store.objects.delete([key]);
  await log.store({ name: "test", store } as Partial<RunContext> as RunContext, 3, "main");
  const file = await store.objects.get(key);
  return file && names.map((name) => readTrainedTokens(file, name, key));
}

test("a trajectory keeps the log-probs of its first pass, and the tokens that any pass clips", async () => {
  const log = new TrainedTokenLog();
  log.add("0/0#0", [-1, -2, -3], [2]);
  log.add("0/0#0", [-4, -5, -6], [0, 2]);
  expect(await stored(log, "0/0#0", "0/1#0")).toEqual([
    { logProbs_A: Float32Array.of(-1, -2, -3), clipped: [0, 2] },
    undefined,
  ]);
});

test("the trajectory that brings the total above 2^20 tokens and all later ones are left out; nothing is stored if nothing was trained on", async () => {
  const log = new TrainedTokenLog();
  expect(await stored(log)).toBeUndefined();
  log.add("first", [-1], []);
  log.add("large", new Float32Array(1 << 20), []);
  log.add("later", [-1], []);
  expect(await stored(log, "first", "large", "later")).toEqual([
    { logProbs_A: Float32Array.of(-1), clipped: [] },
    undefined,
    undefined,
  ]);
});
