/**
 * @file The sampler's graph for several tokens of every row at a time: extend.ts at one token, in a loop that draws from what it predicts and
 * feeds what it drew. The cache goes in once per block and stays where the loop runs; out come the drawn tokens and the new rows of the cache.
 */
import type { Constant, Graph, GraphNode, Port } from "../onnx/serialize.ts";
import type { PolicyShape } from "../policy-shape.ts";
import { portDims, symbolic } from "../trace/dimensions.ts";
import type { TracedGraph } from "../trace/trace.ts";
import { cacheNames, traceExtend } from "./extend.ts";

/** Inputs with an entry per step, by their name in a step. */
const PER_STEP = ["cos", "sin", "mask", "uniform", "written"];
/** What has an entry per step. */
export const perStepName = (name: string): string => `block:${name}`;
/** What is carried from step to step, before the first. */
export const initialName = (name: string): string => `first:${name}`;

const { batch, cached } = symbolic;
const OWN: readonly Port[] = [
  { name: "uniform", type: "float32", dims: portDims([batch, 1]) },
  { name: "written", type: "float32", dims: portDims([batch, 1, 1, cached]) },
  { name: "drawn", type: "int32", dims: portDims([batch, 1]) },
  { name: "probability", type: "float32", dims: portDims([batch, 1]) },
];
const LAST: Constant = { name: "block:last", type: "int64", dims: [1], values: [-1] };
const AXIS: Constant = { name: "block:axis", type: "int64", dims: [], values: [1] };
const ZERO: Constant = { name: "block:zero", type: "float32", dims: [], values: [0] };
const ONE: Constant = { name: "block:one", type: "float32", dims: [], values: [1] };
/** TensorProto.DataType */
const INT32 = 6;

const node = (
  op: string,
  inputs: string[],
  outputs: string[],
  attributes: GraphNode["attributes"] = {},
): GraphNode => ({
  ...{ op, domain: "", inputs, outputs, attributes },
});
const carriedOn = (name: string): string => (name === "tokens" ? "fed" : `next:${name}`);

/**
 * Inputs: those of extend.ts with T = 1, of which first:tokens, first:keys and first:values are carried on, and block:cos, block:sin and
 * block:mask have an axis of N steps before all others; steps, the number N; block:uniform [N, B, 1], a draw in [0, 1] each, below 0 for the
 * likeliest token; block:written [N, B, 1, 1, C], 1 at the position that the step writes.
 * Outputs, each with N first: block:drawn and block:probability [N, B, 1]; block:newKeys and block:newValues per layer, as extend.ts has them.
 */
export function traceBlock(shape: PolicyShape): TracedGraph {
  const { graph, shapeInputs } = traceExtend(shape);
  const layers = Array.from({ length: shape.config.layers }, (_, layer) => cacheNames(layer));
  const carried = ["tokens", ...layers.flatMap(({ keys, values }) => [keys, values])];
  const collected = ["drawn", "probability", ...layers.flatMap(({ newKeys, newValues }) => [newKeys, newValues])];
  const ports = new Map([...graph.inputs, ...graph.outputs, ...OWN].map((port) => [port.name, port]));
  const portOf = (name: string, as = name): Port => ({ ...(ports.get(name) as Port), name: as });
  const perStep = (name: string): Port => {
    const port = portOf(name, perStepName(name));
    return { ...port, dims: ["steps", ...port.dims] };
  };
  const body: Graph = {
    name: "step",
    nodes: [
      ...PER_STEP.map((name) => node("Gather", [perStepName(name), "step"], [name], { axis: 0 })),
      ...graph.nodes,
      ...DRAW,
      ...PLACES,
      ...layers.flatMap(write),
      node("Identity", ["goOn"], ["goesOn"]),
    ],
    inputs: [
      { name: "step", type: "int64", dims: [] },
      { name: "goOn", type: "bool", dims: [] },
      ...carried.map((name) => portOf(name)),
    ],
    outputs: [
      { name: "goesOn", type: "bool", dims: [] },
      ...carried.map((name) => portOf(name, carriedOn(name))),
      ...collected.map((name) => portOf(name)),
    ],
    constants: [],
  };
  const ends = carried.map((name) => `end:${name}`);
  const loop = node("Loop", ["steps", "", ...carried.map(initialName)], [...ends, ...collected.map(perStepName)], {
    body: { graph: body },
  });
  return {
    shapeInputs,
    graph: {
      name: "block",
      nodes: [loop],
      inputs: [
        { name: "steps", type: "int64", dims: [] },
        ...carried.map((name) => portOf(name, initialName(name))),
        ...PER_STEP.map(perStep),
        ...graph.inputs.filter(({ name }) => ![...carried, ...PER_STEP].includes(name)),
      ],
      outputs: collected.map(perStep),
      constants: [...graph.constants, LAST, AXIS, ZERO, ONE],
    },
  };
}

/** The first token whose cumulative probability reaches u of the total: one that can be drawn, however sums are rounded. */
const DRAW: readonly GraphNode[] = [
  node("CumSum", ["probabilities", AXIS.name], ["cumulative"]),
  node("ReduceMax", ["cumulative", LAST.name], ["total"]),
  node("Mul", ["uniform", "total"], ["threshold"]),
  node("Less", ["cumulative", "threshold"], ["below"]),
  node("Cast", ["below"], ["counted"], { to: INT32 }),
  node("ReduceSum", ["counted", LAST.name], ["inverse"]),
  node("ArgMax", ["probabilities"], ["likeliest"], { axis: 1 }),
  node("Cast", ["likeliest"], ["greedy"], { to: INT32 }),
  node("Less", ["uniform", ZERO.name], ["isGreedy"]),
  node("Where", ["isGreedy", "greedy", "inverse"], ["drawn"]),
  node("Identity", ["drawn"], [carriedOn("tokens")]),
  node("GatherElements", ["probabilities", "drawn"], ["probability"], { axis: 1 }),
];

/** Where the step writes and where it keeps, in the axes of keys and of values. */
const PLACES: readonly GraphNode[] = [
  node("Sub", [ONE.name, "written"], ["kept"]),
  node("Transpose", ["written"], ["writtenRows"], { perm: [0, 1, 3, 2] }),
  node("Transpose", ["kept"], ["keptRows"], { perm: [0, 1, 3, 2] }),
];

function write({ keys, values, newKeys, newValues }: ReturnType<typeof cacheNames>): GraphNode[] {
  const into = (cache: string, fresh: string, written: string, kept: string) => [
    node("Mul", [cache, kept], [`${cache}:kept`]),
    node("Mul", [fresh, written], [`${cache}:written`]),
    node("Add", [`${cache}:kept`, `${cache}:written`], [carriedOn(cache)]),
  ];
  return [...into(keys, newKeys, "written", "kept"), ...into(values, newValues, "writtenRows", "keptRows")];
}
