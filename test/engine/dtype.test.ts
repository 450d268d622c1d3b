/** @file The type that config.json names for the weights: what transformers loads them as. */
import { expect, test } from "vitest";
import { exportedFiles } from "../../cli/local/export-form.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { withDtype } from "../../engine/checkpoint/dtype.ts";
import { wholeFile } from "../../engine/checkpoint/files.ts";
import { initializeWeights } from "../../engine/checkpoint/initialize.ts";
import { parameterLayout } from "../../engine/checkpoint/parameters.ts";
import { planModelFiles, serializeFiles } from "../../engine/checkpoint/shards.ts";
import { updated } from "../../engine/index.ts";
import { TINY, tinyCheckpoint } from "./tiny.ts";

const layout = parameterLayout(TINY);
const weights = initializeWeights(TINY, 2);
const saved = serializeFiles(planModelFiles(layout, weights));
const halfBase = withDtype(
  new Map([...tinyCheckpoint(), ...serializeFiles(planModelFiles(layout, weights, "BF16"))]),
  "bfloat16",
);
const configOf = (files: CheckpointFiles) =>
  JSON.parse(Buffer.from(wholeFile(files.get("config.json") ?? expect.fail())).toString("utf8")) as object;
const exported = (files: CheckpointFiles) =>
  exportedFiles(
    files,
    { run: "r", agent: "main", version: 1, trained: true, files: {}, stats: null, seconds: null },
    { merged: false, dtype: undefined },
  );

test("the config of weights that were trained from a bfloat16 base names float32, so that loading does not round them", () => {
  expect(configOf(halfBase)).toMatchObject({ torch_dtype: "bfloat16" });
  expect(configOf(updated(halfBase, saved))).toMatchObject({ torch_dtype: "float32" });
  expect(configOf(exported(new Map([...halfBase, ...saved])))).toMatchObject({ torch_dtype: "float32" });
});

test("if weights are stored as their config says, an export returns the files as they are and an update keeps the config", () => {
  expect(exported(halfBase)).toBe(halfBase);
  expect(updated(tinyCheckpoint(), saved).get("config.json")).toEqual(tinyCheckpoint().get("config.json"));
});

test("the key of newer versions of transformers is kept; a config that names no type stays as it is", () => {
  const config = (text: string) => new Map([...halfBase, ["config.json", Buffer.from(text)]]);
  expect(configOf(updated(config('{ "dtype": "float16" }'), saved))).toEqual({ dtype: "float32" });
  expect(configOf(updated(config("{}"), saved))).toEqual({});
});
