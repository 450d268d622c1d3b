/**
 * @file One step of examples/loop.ts and of examples/team.ts: rewards and weights are numbers, and the weights change.
 * examples.long.test.ts tests that rewards rise.
 */
import { expect, test } from "vitest";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { type CheckpointFiles, readCheckpoint } from "../../engine/index.ts";
import * as loop from "../../examples/loop.ts";
import * as team from "../../examples/team.ts";
import { readSafetensors } from "../engine/read-safetensors.ts";

const STEPS = 1;

function weightsOf(files: CheckpointFiles): number[] {
  const { tensors } = readSafetensors(files.get(MODEL_FILE) ?? new Uint8Array(), "weights");
  return [...tensors.values()].flatMap(({ values }) => [...values]);
}

async function expectTrained(trained: CheckpointFiles, model: string): Promise<void> {
  const [before, after] = [weightsOf(await readCheckpoint(`recipes/atlas/models/${model}`)), weightsOf(trained)];
  expect(after.every(Number.isFinite)).toBe(true);
  const changed = after.filter((weight, i) => weight !== before[i]).length;
  expect(changed / before.length).toBeGreaterThan(0.5);
}

function expectRewards(rewards: readonly number[]): void {
  expect(rewards).toHaveLength(STEPS);
  for (const reward of rewards) {
    expect(reward).toBeGreaterThan(0);
    expect(reward).toBeLessThanOrEqual(1);
  }
}

test("examples/loop.ts scores its rollouts and changes the weights", async () => {
  const { rewards, checkpoint } = await loop.train(STEPS, () => {});
  expectRewards(rewards);
  await expectTrained(checkpoint, "single");
});

test("examples/team.ts scores its rollouts and changes the weights of both agents", async () => {
  const { rewards, checkpoints } = await team.train(STEPS, () => {});
  expectRewards(rewards);
  await expectTrained(checkpoints.main, "main");
  await expectTrained(checkpoints.searcher, "searcher");
});
