/** @file The base models of atlas in the repository: complete, small, of two sizes, and with the recipe's tokenizers and settings. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import { parseModelConfig } from "../../../engine/checkpoint/config.ts";
import { parameterLayout } from "../../../engine/checkpoint/parameters.ts";
import { parseCheckpoint } from "../../../engine/checkpoint/weights.ts";
import { baseModels, MODELS, plannerOfTwo } from "../../../recipes/atlas/bases.ts";

const HUGGING_FACE = [
  "config.json",
  "generation_config.json",
  "model.safetensors",
  "tokenizer.json",
  "tokenizer_config.json",
];
const all = [...baseModels, plannerOfTwo];
/** The files that the settings and demonstrations of each model produce, built once: building a tokenizer takes seconds. */
const built = new Map(all.map((base) => [base, base.files()]));
const filesIn = (folder: string) =>
  new Map(readdirSync(folder).map((file) => [file, new Uint8Array(readFileSync(join(folder, file)))]));

test.each(all)("$folder opens, with finite weights", (base) => {
  const files = filesIn(base.folder);
  expect([...files.keys()].sort()).toEqual([...HUGGING_FACE, "training.json"].sort());
  const { weights, config, layout } = parseCheckpoint(files);
  expect(weights).toHaveLength(parameterLayout(config).length);
  expect(layout.length).toBeGreaterThan(300_000);
  expect(weights.every(Number.isFinite)).toBe(true);
});

test.each(all)("$folder has the tokenizer, config and training settings of the recipe", (base) => {
  const stored = filesIn(base.folder);
  const recipe = base === plannerOfTwo ? "atlas-two-subs" : "atlas";
  const remedy = `run npm run mgrpo -- pretrain recipes/${recipe} --to recipes/atlas/models`;
  for (const [name, bytes] of built.get(base) ?? [])
    expect(Buffer.from(stored.get(name) ?? []).equals(Buffer.from(bytes)), `${name}: ${remedy}`).toBe(true);
  const record = JSON.parse(new TextDecoder().decode(stored.get("training.json")));
  expect(record).toMatchObject({ ...base.training, seed: base.seed });
});

test("there is no other model; planner and searcher differ in width and vocabulary size; all together are under 15 MB", () => {
  expect(readdirSync(MODELS).sort()).toEqual(all.map(({ folder }) => basename(folder)).sort());
  const shapes = [...built.values()].map((files) => parseModelConfig(files.get("config.json") ?? ""));
  expect(new Set(shapes.slice(0, 2).map(({ width }) => width)).size).toBe(2);
  expect(new Set(shapes.slice(0, 2).map(({ vocabulary }) => vocabulary)).size).toBe(2);
  const bytes = readdirSync(MODELS, { recursive: true, encoding: "utf8" })
    .map((name) => statSync(join(MODELS, name)))
    .reduce((sum, stat) => sum + (stat.isFile() ? stat.size : 0), 0);
  expect(bytes).toBeLessThan(15e6);
});
