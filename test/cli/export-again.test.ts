/** @file Exports can be repeated: files copied from a base model, even read-only ones, are replaced. A failed export leaves no partial copy. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { exportCheckpoints } from "../../cli/local/finish.ts";
import { sha256 } from "../../engine/hash.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { config } from "./records.ts";
import { commitUntrainedTeam } from "./untrained-team.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-export-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function storeOfUntrainedTeam(origin: string, weights: Uint8Array) {
  const store = memoryStore();
  await commitUntrainedTeam(store, origin, weights);
  return store;
}

test("a second export replaces the copy of a read-only file, and does not write into it", async () => {
  const weights = Uint8Array.of(1, 2, 3);
  const origin = join(folder, "base.safetensors");
  writeFileSync(origin, weights, { mode: 0o444 });
  const store = await storeOfUntrainedTeam(origin, weights);
  const exported = async () => {
    const agents = await exportCheckpoints(store, config, join(folder, "checkpoints"), 1);
    expect(agents["main"]?.sha256).toBe(sha256(weights));
    return statSync(join(folder, "checkpoints", "main", "model.safetensors")).ino;
  };
  const first = await exported();
  expect(await exported()).not.toBe(first);
});

test("a failed export leaves no partial copy", async () => {
  const weights = Uint8Array.of(1, 2, 3);
  const origin = join(folder, "whole.safetensors");
  writeFileSync(origin, weights);
  const store = await storeOfUntrainedTeam(origin, weights);
  const [first = ""] = Object.keys(config.agents);
  const blocked = join(folder, "blocked", first);
  mkdirSync(join(blocked, "model.safetensors"), { recursive: true });
  await expect(exportCheckpoints(store, config, join(folder, "blocked"), 1)).rejects.toThrow();
  expect(readdirSync(blocked)).toEqual(["model.safetensors"]);
});
