/** @file A fake hub with a small model, and an empty cache, for each test of a file. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import type { HubReporter } from "../../../../adapters/checkpoints/hub/model.ts";
import { hubSettings } from "../../../../adapters/checkpoints/hub/settings.ts";
import { sha256 } from "../../../../engine/hash.ts";
import { type FakeHub, startHub, TOKEN } from "../../../fakes/hub-server.ts";

export const MODEL = { repository: "owner/tiny", revision: "main" };
export const weights = new Uint8Array(100_000).map((_, i) => i % 251);
export const text = (value: string) => new TextEncoder().encode(value);
export const FILES = new Map([
  ["config.json", text('{"model_type": "llama"}')],
  ["tokenizer.json", text("{}")],
  ["tokenizer_config.json", text("{ }")],
  ["model.safetensors", weights],
  ["consolidated.safetensors", weights.map((byte) => byte ^ 1)],
  ["pytorch_model.bin", text("pickled")],
]);

export function useTinyHub() {
  let hub: FakeHub | undefined;
  let home = "";
  const notes: string[] = [];
  const report: HubReporter = { progress() {}, note: (message) => notes.push(message) };
  const root = () => join(home, "hub", "models--owner--tiny");
  beforeEach(async () => {
    hub = await startHub(MODEL.repository, FILES);
    home = mkdtempSync(join(tmpdir(), "mgrpo-hub-"));
    notes.length = 0;
  });
  afterEach(async () => {
    await hub?.close();
    rmSync(home, { recursive: true, force: true });
  });
  return {
    hub: () => hub ?? expect.fail("the hub is not started"),
    home: () => home,
    notes,
    report,
    settings: (more: Record<string, string> = {}) =>
      hubSettings({ HF_ENDPOINT: hub?.url, HF_HOME: home, HF_TOKEN: TOKEN, ...more }),
    root,
    blobOfWeights: () => join(root(), "blobs", sha256(weights)),
    async serve(files: ReadonlyMap<string, Uint8Array>) {
      await hub?.close();
      hub = await startHub(MODEL.repository, files);
    },
  };
}
