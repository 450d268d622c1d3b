/** @file The state of supervised training reads back a file of more than 2 GiB, such as the shard of one large embedding. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openTrainingState } from "../../sft/state.ts";

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
