/** @file The quantized base of a checkpoint is computed once per process; a full disk is reported as such. */
import fs, { mkdtempSync, rmSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test, vi } from "vitest";
import type { CheckpointFiles } from "../../core/ports.ts";
import { openQuantized } from "../../engine/compiled/open-quantized.ts";
import { writeQuantizedBase } from "../../engine/compiled/quantization/quantized-base.ts";
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

test("a disk without room for the quantized base is a full disk, not a model that is not supported", () => {
  const files = mapped(tinyAdapter(WIDE, LORA), join(folder, "full"));
  const write = vi.spyOn(fs, "writeSync").mockImplementation(() => {
    throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
  });
  syncBuiltinESMExports();
  onTestFinished(() => {
    write.mockRestore();
    syncBuiltinESMExports();
  });
  const path = join(folder, "int4");
  const message = `${path}: the disk is full (ENOSPC), and the quantized base takes 1 MB: free some space, or set TMPDIR to a folder on another disk`;
  expect(() => writeQuantizedBase(files, 4, path)).toThrow(expect.objectContaining({ code: "disk-full", message }));
});
