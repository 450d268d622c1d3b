/**
 * @file Weights that lie in their file as halves, in a graph that computes in float32: each gets a Cast, so that the runtime maps them as
 * they are and holds the float32 of one only while it is read. Rows are looked up first and cast after.
 */
import type { ExternalTensors, Graph, GraphNode } from "./serialize.ts";

/** TensorProto.DataType */
const FLOAT = 1;

export const isHalf = (external: ExternalTensors, name: string): boolean =>
  (external.get(name)?.type ?? "float32") !== "float32";

/** The graph with a Cast behind every weight of `external` that is no float32. */
export function widenHalves(graph: Graph, external: ExternalTensors): Graph {
  const widened = new Set<string>();
  const wide = (name: string) => (isHalf(external, name) ? `${name}:float32` : name);
  const nodes = graph.nodes.flatMap((node): GraphNode[] => {
    const [first = ""] = node.inputs;
    const [output = ""] = node.outputs;
    if (node.op === "Gather" && isHalf(external, first)) {
      const rows = `${output}:rows`;
      return [{ ...node, outputs: [rows] }, cast(rows, output)];
    }
    const halves = node.inputs.filter((name) => isHalf(external, name) && !widened.has(name));
    for (const name of halves) widened.add(name);
    return [...halves.map((name) => cast(name, wide(name))), { ...node, inputs: node.inputs.map(wide) }];
  });
  return { ...graph, nodes };
}

const cast = (from: string, to: string): GraphNode => ({
  op: "Cast",
  domain: "",
  inputs: [from],
  outputs: [to],
  attributes: { to: FLOAT },
});
