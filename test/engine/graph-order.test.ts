/** @file The order in which the runtime computes the training graph: a layer's weight gradients come before the backward pass of the layer below. */
import { expect, test } from "vitest";
import { EMBEDDING, FINAL_NORM } from "../../engine/checkpoint/parameters.ts";
import { traceTrain } from "../../engine/compiled/graphs/train.ts";
import type { GraphNode } from "../../engine/compiled/onnx/serialize.ts";
import { TINY } from "./tiny.ts";

/**
 * onnxruntime's default order: a depth-first search through inputs, from each node whose outputs no node reads. The last such node in the
 * list comes first. Each node follows all nodes that it depends on.
 */
function executionOrder(nodes: readonly GraphNode[]): GraphNode[] {
  const makers = new Map(nodes.flatMap((node) => node.outputs.map((output) => [output, node] as const)));
  const read = new Set(nodes.flatMap(({ inputs }) => inputs));
  const order = new Set<GraphNode>();
  const visit = (node: GraphNode) => {
    if (order.has(node)) return;
    const before = node.inputs.flatMap((input) => makers.get(input) ?? []);
    for (const maker of before.sort((a, b) => nodes.indexOf(b) - nodes.indexOf(a))) visit(maker);
    order.add(node);
  };
  for (const node of [...nodes].reverse()) if (!node.outputs.some((output) => read.has(output))) visit(node);
  return [...order];
}

test("gradients are computed from the head down, a layer's before the backward pass reaches the layer below", () => {
  const { nodes, outputs } = traceTrain("sequences")({ config: TINY, lora: null }).graph;
  const order = executionOrder(nodes);
  expect(order).toHaveLength(nodes.length);
  const gradients = order.flatMap(({ outputs }) => outputs).filter((name) => name.startsWith("d:"));
  const stages = gradients.map((name) => /layers\.\d+/.exec(name)?.[0] ?? name.slice(2));
  expect([...new Set(stages)]).toEqual([EMBEDDING, FINAL_NORM, "layers.1", "layers.0"]);
  expect(stages).toEqual([...stages].sort((a, b) => stages.indexOf(a) - stages.indexOf(b)));
  // All values that outputs need, except the gradients of layer 0's weights and of the embedded tokens. A node that computes none of these values
  // belongs to layer 0's backward pass.
  const isBelow = (output: string) => output.startsWith("d:model.layers.0.") || output === "embeddedGradient";
  const above = new Set(outputs.map(({ name }) => name).filter((name) => !isBelow(name)));
  for (const node of [...order].reverse())
    if (node.outputs.some((output) => above.has(output))) for (const input of node.inputs) above.add(input);
  const firstOfLayer0 = order.findIndex((node) => !node.outputs.some((output) => above.has(output)));
  const last = order.findLastIndex((node) => node.outputs.some((output) => output.startsWith("d:model.layers.1.")));
  expect(last).toBeLessThan(firstOfLayer0);
});
