/** @file A checkpoint that replaces another: whenever its writer is stopped, no file of one is opened with a file of the other. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import type { CheckpointFiles } from "../../core/ports.ts";
import { readCheckpoint, writeCheckpoint } from "../../engine/checkpoint/folder.ts";

/** Calls of `rename` and `rm` that succeed before one fails. If `isKilled`, all later ones fail too. */
const calls = vi.hoisted(() => ({ left: Number.POSITIVE_INFINITY, isKilled: false }));

vi.mock("node:fs/promises", async (importOriginal) => {
  const original = await importOriginal<typeof import("node:fs/promises")>();
  const stopped = <A extends unknown[]>(call: (...args: A) => Promise<void>) => {
    return async (...args: A) => {
      const left = calls.left--;
      if (left === 0 || (left < 0 && calls.isKilled)) throw new Error("stopped");
      return call(...args);
    };
  };
  return { ...original, rename: stopped(original.rename), rm: stopped(original.rm) };
});

const versionOf = (names: readonly string[], version: number): CheckpointFiles =>
  new Map(names.map((name) => [name, Uint8Array.of(version)]));

const SHARDS = ["model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
const OPTIMIZER_SHARDS = ["optimizer.safetensors.index.json", "optimizer-00001-of-00001.safetensors"];

/** Whether the files have weights that a trainer would open. */
const hasWeights = (files: CheckpointFiles) =>
  files.has("model.safetensors") || files.has("model.safetensors.index.json") || files.has("adapter_model.safetensors");

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "mgrpo-versions-"));
  onTestFinished(async () => {
    calls.left = Number.POSITIVE_INFINITY;
    await rm(folder, { recursive: true });
  });
  return folder;
}

test.each<[string, string[], string[]]>([
  ["one file", ["model.safetensors", "optimizer.safetensors", "config.json"], ["model.safetensors", "config.json"]],
  ["shards", [...SHARDS, ...OPTIMIZER_SHARDS, "config.json"], [...SHARDS, "config.json"]],
  ["one file in place of shards", [...SHARDS, "config.json"], ["model.safetensors", "config.json"]],
  [
    "an optimizer in shards in place of one file",
    ["model.safetensors", "optimizer.safetensors", "config.json"],
    ["model.safetensors", ...OPTIMIZER_SHARDS, "config.json"],
  ],
  [
    "an adapter",
    ["adapter_model.safetensors", "adapter_config.json", "optimizer.safetensors"],
    ["adapter_model.safetensors", "adapter_config.json", "optimizer.safetensors"],
  ],
])(
  "%s: a writer that is stopped at any time leaves one version, or no weights but the unfinished new ones",
  async (_what, before, after) => {
    const stopAfter = async (done: number, isKilled: boolean): Promise<boolean> => {
      const folder = await newFolder();
      await writeCheckpoint(folder, versionOf(before, 1));
      Object.assign(calls, { left: done, isKilled });
      const writing = writeCheckpoint(folder, versionOf(after, 2));
      const isDone = await writing.then(
        () => true,
        () => false,
      );
      calls.left = Number.POSITIVE_INFINITY;
      const files = await readCheckpoint(folder);
      // Shards that no index names are not opened.
      const opened = [...files].filter(([name]) => files.has(SHARDS[0] ?? "") || !name.startsWith("model-"));
      if (hasWeights(files)) expect(new Set(opened.map(([, file]) => (file as Uint8Array)[0])).size).toBe(1);
      // The new weights, which may be the only ones, stay in the folder, under temporary names.
      else expect(await readdir(folder)).toContainEqual(expect.stringContaining(`${after[0]}.partial-`));
      return isDone;
    };
    for (const isKilled of [true, false]) {
      let done = 0;
      while (done < 100 && !(await stopAfter(done, isKilled))) done++;
      expect(done).toBeGreaterThan(after.length);
      expect(done).toBeLessThan(100);
    }
  },
);

test("new weights delete the optimizer state of those that they replace; a new config alone keeps it", async () => {
  const folder = await newFolder();
  await writeCheckpoint(folder, versionOf(["model.safetensors", ...OPTIMIZER_SHARDS, "config.json", "notes.md"], 1));
  await writeCheckpoint(folder, versionOf(["config.json"], 2));
  expect(await readdir(folder)).toEqual(expect.arrayContaining(OPTIMIZER_SHARDS));
  await writeCheckpoint(folder, versionOf(["model.safetensors", "config.json"], 2));
  expect((await readdir(folder)).sort()).toEqual(["config.json", "model.safetensors", "notes.md"]);
});
