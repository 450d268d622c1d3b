/**
 * @file `mgrpo import` converts a GGUF file into a checkpoint folder, overwrites nothing, refuses a folder or a missing file, and deletes what a
 * killed import left.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { importModel } from "../../cli/import-model.ts";

const TINY = join(import.meta.dirname, "../fixtures/gguf/tiny.gguf");
const folder = mkdtempSync(join(tmpdir(), "mgrpo-import-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("import writes the folder, describes the model, and overwrites nothing", async () => {
  const printed = vi.spyOn(console, "log").mockReturnValue();
  const to = join(folder, "tiny");
  await importModel(TINY, { to, dtype: "bf16" });
  expect(printed.mock.calls[0]?.[0]).toMatch(
    /llama, 0\.0787 M parameters, from Q8_0, F32, Q4_1, Q4_0, F16, BF16, as bf16/,
  );
  expect(existsSync(join(to, "model.safetensors"))).toBe(true);
  await expect(importModel(TINY, { to, dtype: "fp32" })).rejects.toThrow(/exists: name a folder that does not/);
  printed.mockRestore();
});

test("a missing file is refused, and so is a folder", async () => {
  const to = join(folder, "x");
  await expect(importModel(folder, { to, dtype: "fp32" })).rejects.toThrow(/is a folder: name the \.gguf file in it$/);
  await expect(importModel("nowhere.gguf", { to: join(folder, "x"), dtype: "fp32" })).rejects.toThrow(/no such file/);
});

test("what a killed import left of the folder is deleted by the next one", async () => {
  const printed = vi.spyOn(console, "log").mockReturnValue();
  const parent = join(folder, "again");
  // No system assigns process ids as large as 2^30.
  const left = join(parent, `.tiny.${hostname()}-${2 ** 30}`);
  mkdirSync(left, { recursive: true });
  writeFileSync(join(left, "model.safetensors"), "half");
  await importModel(TINY, { to: join(parent, "tiny"), dtype: "bf16" });
  expect(readdirSync(parent)).toEqual(["tiny"]);
  printed.mockRestore();
});
