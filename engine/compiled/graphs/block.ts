/**
 * @file The sampler's graph for a block of tokens: extend.ts with one token, in a loop that draws from each prediction and feeds the drawn
 * token back. The KV cache enters once per block and stays with the loop; only drawn tokens, their probabilities and new cache rows come out.
 */
import type { LaneOptions } from "../lanes.ts";
import { type Constant, DATA_TYPES, type Graph, type GraphNode, type Port } from "../onnx/serialize.ts";
import type { PolicyShape } from "../policy-shape.ts";
import { portDims, symbolic } from "../trace/dimensions.ts";
import type { TracedGraph } from "../trace/trace.ts";
import { cacheNames, traceExtend } from "./extend.ts";

/** Inputs with one entry per step, by their name inside a step. */
const PER_STEP = ["cos", "sin", "mask", "uniform", "written"];
/** The name, outside the loop, of a value with one entry per step. */
export const perStepName = (name: string): string => `block:${name}`;
/** The name of a loop-carried value before the first step. */
export const initialName = (name: string): string => `first:${name}`;

const { batch, cached } = symbolic;
/** Ports of a step that extend.ts does not have. */
const STEP_PORTS: readonly Port[] = [
  { name: "uniform", type: "float32", dims: portDims([batch, 1]) },
  { name: "written", type: "float32", dims: portDims([batch, 1, 1, cached]) },
  { name: "drawn", type: "int32", dims: portDims([batch, 1]) },
  { name: "probability", type: "float32", dims: portDims([batch, 1]) },
];
const REDUCED_AXES: Constant = { name: "block:last", type: "int64", dims: [1], values: [-1] };
const CUMSUM_AXIS: Constant = { name: "block:axis", type: "int64", dims: [], values: [1] };
const ZERO: Constant = { name: "block:zero", type: "float32", dims: [], values: [0] };
const ONE: Constant = { name: "block:one", type: "float32", dims: [], values: [1] };

const node = (
  op: string,
  inputs: string[],
  outputs: string[],
  attributes: GraphNode["attributes"] = {},
): GraphNode => ({ op, domain: "", inputs, outputs, attributes });
/** The name of a loop-carried value after a step. */
const nextStepName = (name: string): string => `next:${name}`;

/**
 * Inputs: those of extend.ts with T = 1, where first:tokens and, per layer, first:keys and first:values are loop-carried, and block:cos,
 * block:sin and block:mask have a leading axis of N steps; steps, the number N; block:uniform [N, B, 1], draws in (0, 1], or below 0 for the
 * argmax; block:written [N, B, 1, 1, C], 1 at the position that the step writes.
 * Outputs, with a leading axis N: block:drawn and block:probability [N, B, 1]; block:newKeys and block:newValues per layer, as in extend.ts.
 */
export function traceBlock(shape: PolicyShape, options: LaneOptions): TracedGraph {
  const { graph, shapeInputs } = traceExtend(shape, options);
  const layers = Array.from({ length: shape.config.layers }, (_, layer) => cacheNames(layer));
  const carried = ["tokens", ...layers.flatMap(({ keys, values }) => [keys, values])];
  const collected = ["drawn", "probability", ...layers.flatMap(({ newKeys, newValues }) => [newKeys, newValues])];
  const ports = new Map([...graph.inputs, ...graph.outputs, ...STEP_PORTS].map((port) => [port.name, port]));
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
      ...WRITE_MASKS,
      ...layers.flatMap(writeCache),
      node("Identity", ["condition"], ["nextCondition"]),
    ],
    inputs: [
      { name: "step", type: "int64", dims: [] },
      { name: "condition", type: "bool", dims: [] },
      ...carried.map((name) => portOf(name)),
    ],
    outputs: [
      { name: "nextCondition", type: "bool", dims: [] },
      ...carried.map((name) => portOf(name, nextStepName(name))),
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
      constants: [...graph.constants, REDUCED_AXES, CUMSUM_AXIS, ZERO, ONE],
    },
  };
}

/**
 * If `uniform` is above 0, inverse CDF: the first token whose cumulative probability reaches `uniform` times the
 * total. The probability of that token is positive. If `uniform` is below 0: the argmax.
 */
const DRAW: readonly GraphNode[] = [
  node("CumSum", ["probabilities", CUMSUM_AXIS.name], ["cumulative"]),
  node("ReduceMax", ["cumulative", REDUCED_AXES.name], ["total"]),
  node("Mul", ["uniform", "total"], ["threshold"]),
  node("Less", ["cumulative", "threshold"], ["below"]),
  node("Cast", ["below"], ["counted"], { to: DATA_TYPES.int32 }),
  node("ReduceSum", ["counted", REDUCED_AXES.name], ["inverse"]),
  node("ArgMax", ["probabilities"], ["likeliest"], { axis: 1 }),
  node("Cast", ["likeliest"], ["greedy"], { to: DATA_TYPES.int32 }),
  node("Less", ["uniform", ZERO.name], ["isGreedy"]),
  node("Where", ["isGreedy", "greedy", "inverse"], ["drawn"]),
  node("Identity", ["drawn"], [nextStepName("tokens")]),
  node("GatherElements", ["probabilities", "drawn"], ["probability"], { axis: 1 }),
];

/** Masks of the positions that the step writes and keeps, in the layouts of keys and of values. */
const WRITE_MASKS: readonly GraphNode[] = [
  node("Sub", [ONE.name, "written"], ["kept"]),
  node("Transpose", ["written"], ["writtenRows"], { perm: [0, 1, 3, 2] }),
  node("Transpose", ["kept"], ["keptRows"], { perm: [0, 1, 3, 2] }),
];

function writeCache({ keys, values, newKeys, newValues }: ReturnType<typeof cacheNames>): GraphNode[] {
  const into = (cache: string, fresh: string, written: string, kept: string) => [
    node("Mul", [cache, kept], [`${cache}:kept`]),
    node("Mul", [fresh, written], [`${cache}:written`]),
    node("Add", [`${cache}:kept`, `${cache}:written`], [nextStepName(cache)]),
  ];
  return [...into(keys, newKeys, "written", "kept"), ...into(values, newValues, "writtenRows", "keptRows")];
}
