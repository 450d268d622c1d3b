/** @file A trainer on several lanes: only the first loads the optimizer's state, and it loads before the others. */
import { expect, test } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { dataParallel } from "../../engine/compiled/training/data-parallel.ts";
import type { LaneTrainer } from "../../engine/compiled/training/lane-trainer.ts";

const NAMES = ["config.json", "model.safetensors", "optimizer-00001-of-00002.safetensors"];
const FILES: CheckpointFiles = new Map(NAMES.map((name) => [name, new Uint8Array()]));

/** Lanes that record the names of the files that they load. The first refuses them if `isDamaged`. */
function lanes(isDamaged: boolean) {
  const loaded: string[][] = [[], [], []];
  const load = async (lane: number, files: CheckpointFiles) => {
    if (lane === 0 && isDamaged) throw new MgrpoError("checkpoint-damaged", "damaged");
    loaded[lane] = [...files.keys()];
  };
  const fakes = loaded.map((_, lane): Pick<LaneTrainer, "load"> => ({ load: (files) => load(lane, files) }));
  // Nothing but `load` is called.
  return { loaded, trainer: dataParallel(fakes as LaneTrainer[], () => []) };
}

test("only the first lane loads the optimizer's state", async () => {
  const { loaded, trainer } = lanes(false);
  await trainer.load(FILES);
  expect(loaded).toEqual([NAMES, NAMES.slice(0, 2), NAMES.slice(0, 2)]);
});

test("files that the first lane refuses are loaded by no lane: the others, which do not read the optimizer's state, would accept them", async () => {
  const { loaded, trainer } = lanes(true);
  await expect(trainer.load(FILES)).rejects.toMatchObject({ code: "checkpoint-damaged" });
  expect(loaded).toEqual([[], [], []]);
});
