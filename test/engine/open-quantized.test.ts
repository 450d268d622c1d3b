/** @file The quantized base of a checkpoint is computed once per process. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { CheckpointFiles } from "../../core/ports.ts";
import { openQuantized } from "../../engine/compiled/open-quantized.ts";
import { EngineThread } from "../../engine/compiled/thread.ts";
import { LORA, mapped, tinyAdapter, WIDE } from "./tiny.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-quantized-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("a checkpoint is quantized once, and again if another file takes its place", async () => {
  const thread = new EngineThread();
  const pathOf = async (files: CheckpointFiles) => (await openQuantized(thread, files, 4, undefined)).path;
  const model = (seed: number) => mapped(tinyAdapter(WIDE, LORA, seed), join(folder, "model"));
  const files = model(1);
  const path = await pathOf(files);
  expect(await pathOf(files)).toBe(path);
  expect(await pathOf(model(2))).not.toBe(path);
});
