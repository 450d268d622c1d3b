/** @file The shapes that the backward graph of layered training declares: without them, its session takes several times as long to open. */
import { expect, test } from "vitest";
import { LoraConfig } from "../../core/contracts/lora.ts";
import { openGraphSession, tensor } from "../../engine/compiled/graph-session.ts";
import { traceBackward } from "../../engine/compiled/graphs/layered.ts";
import { traceTrain } from "../../engine/compiled/graphs/train.ts";
import type { Port } from "../../engine/compiled/onnx/serialize.ts";
import { TINY } from "./tiny.ts";

const LENGTHS = { batch: 3, tokens: 5 };
const shape = { config: TINY, lora: LoraConfig.parse({ rank: 2 }) };
const cases = (["trees", "sequences"] as const).flatMap((kind) => [true, false].map((keeps) => ({ kind, keeps })));

/** A dimension such as `batch*tokens*4` at LENGTHS. */
const lengthOf = (dimension: number | string) =>
  typeof dimension === "number"
    ? dimension
    : dimension.split("*").reduce((product, part) => product * (Number(part) || LENGTHS[part as "batch"]), 1);

const sizesOf = ({ dims }: Port) => dims.map(lengthOf);

function zeros(port: Port) {
  const sizes = sizesOf(port);
  const length = sizes.reduce((product, size) => product * size, 1);
  return tensor(port.type === "int32" ? new Int32Array(length) : new Float32Array(length), sizes);
}

test.each(cases)("declared shapes of $kind (keeps: $keeps) are what the runtime computes", async ({ kind, keeps }) => {
  const traced = traceBackward(kind, keeps)(shape);
  const { values = [], inputs, outputs, nodes } = traced.graph;
  expect(values.length).toBeGreaterThan(nodes.length / 2);
  const everything = { ...traced, graph: { ...traced.graph, outputs: [...outputs, ...values] } };
  const session = await openGraphSession(everything, { threads: 1, provider: "cpu" });
  const shapeNames = new Set(traced.shapeInputs.map(({ name }) => name));
  const feeds = Object.fromEntries(
    inputs.filter(({ name }) => !shapeNames.has(name)).map((port) => [port.name, zeros(port)]),
  );
  const computed = await session.runToTensors(LENGTHS, feeds);
  for (const port of [...values, ...outputs])
    expect([port.name, computed[port.name]?.dims]).toEqual([port.name, sizesOf(port)]);
});

test("the training graph of a small model declares no shapes: declaring them might change how its results are rounded", () => {
  expect(traceTrain("sequences")({ config: TINY, lora: null }).graph.values).toBeUndefined();
});
