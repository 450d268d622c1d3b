/** @file Tensors larger than the buffers through which they are read or checked. */
import { expect, test } from "vitest";
import { initializeWeights } from "../../engine/checkpoint/initialize.ts";
import { EMBEDDING, parameterLayout, viewNamed } from "../../engine/checkpoint/parameters.ts";
import { type WrittenType, writeSafetensors } from "../../engine/checkpoint/safetensors.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { checkCheckpoint, writeModel } from "../../engine/checkpoint/weights.ts";
import { readSafetensors } from "./read-safetensors.ts";
import { TINY, tinyCheckpoint } from "./tiny.ts";

test("a large tensor in half precision is read in parts, to the same values", () => {
  // bfloat16 represents every integer up to 256 exactly.
  const values = Float32Array.from({ length: 2 ** 22 + 3 }, (_, i) => i % 251);
  const bytes = writeSafetensors(new Map([["a", { shape: [values.length], values }]]), {}, "BF16");
  const found = readSafetensors(bytes, "x").tensors.get("a")?.values ?? expect.fail("no tensor");
  expect(values.findIndex((value, i) => found[i] !== value)).toBe(-1);
});

/** Its embedding has 8 * (2 ** 17 + 3) elements. */
const LARGE = { ...TINY, width: 8, ffnWidth: 8, vocabulary: 2 ** 17 + 3 };

test.each<WrittenType>(["F32", "BF16"])("%s: the last part of a large tensor is checked for NaN, too", (dtype) => {
  const layout = parameterLayout(LARGE);
  const weights = initializeWeights(LARGE, 1);
  const files = () => tinyCheckpoint(LARGE).set(MODEL_FILE, writeModel(layout, weights, dtype));
  expect(checkCheckpoint(files())).toEqual(LARGE);
  viewNamed(EMBEDDING, layout, weights).fill(Number.NaN, -1);
  expect(() => checkCheckpoint(files())).toThrow(/'model.embed_tokens.weight' holds NaN at element 1048599 of/);
});
