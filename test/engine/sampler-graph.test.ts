/** @file The sampler's graph has no node that only takes time: a decoding step runs all of them for a few rows. */
import { expect, test } from "vitest";
import { traceExtend } from "../../engine/compiled/graphs/extend.ts";
import { LORA, OPTIONS, TINY } from "./tiny.ts";

const { graph } = traceExtend({ config: TINY, lora: LORA }, { ...OPTIONS, provider: "cpu" });
const LINEAR_LAYERS = 7;

test("nothing reshapes a reshaped value", () => {
  const reshapes = graph.nodes.filter(({ op }) => op === "Reshape");
  const reshaped = new Set(reshapes.flatMap(({ outputs }) => outputs));
  expect(reshapes.length).toBeGreaterThan(0);
  expect(reshapes.filter(({ inputs: [from = ""] }) => reshaped.has(from))).toEqual([]);
});

test("an adapter's product is added to its base's in one node, which reads B", () => {
  const sums = graph.nodes.filter(({ op }) => op === "Gemm");
  expect(sums).toHaveLength(LINEAR_LAYERS * TINY.layers);
  expect(sums.map(({ inputs: [, b = ""] }) => b).filter((name) => !name.includes("lora_B"))).toEqual([]);
});
