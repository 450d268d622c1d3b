/**
 * @file Weights that lie in their file as halves, in a graph that computes in float32: each gets a Cast, so that the runtime maps them as
 * they are and holds the float32 of one only while it is read. Rows are looked up first and cast after.
 */
import type { ExternalTensors, Graph, GraphNode } from "./serialize.ts";

/** TensorProto.DataType */
const FLOAT = 1;

export const isHalf = (external: ExternalTensors, name: string): boolean =>
  (external.get(name)?.type ?? "float32") !== "float32";

/**
 * The graph with a Cast behind every weight of `external` that is no float32. They come first in its list: of what a node waits for, the
 * runtime computes what is listed last before the rest, so a weight is widened when the node's other inputs are there, and not before. Without
 * `rowsFirst` each Cast is of a whole weight, which the runtime folds while it opens the session.
 */
export function widenHalves(graph: Graph, external: ExternalTensors, rowsFirst = true): Graph {
  const wide = (name: string) => (isHalf(external, name) ? `${name}:float32` : name);
  const widened = new Set<string>();
  const nodes = graph.nodes.flatMap((node): GraphNode[] => {
    const [first = ""] = node.inputs;
    const [output = ""] = node.outputs;
    if (rowsFirst && node.op === "Gather" && isHalf(external, first)) {
      const rows = `${output}:rows`;
      return [{ ...node, outputs: [rows] }, cast(rows, output)];
    }
    for (const name of node.inputs) if (isHalf(external, name)) widened.add(name);
    return [{ ...node, inputs: node.inputs.map(wide) }];
  });
  return { ...graph, nodes: [...[...widened].map((name) => cast(name, wide(name))), ...nodes] };
}

const cast = (from: string, to: string): GraphNode => ({
  op: "Cast",
  domain: "",
  inputs: [from],
  outputs: [to],
  attributes: { to: FLOAT },
});
