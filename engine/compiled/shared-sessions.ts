/**
 * @file Sessions shared by graph and policy shape: fed weights are not part of a graph, so all versions of a policy share one session.
 * Memory-mapped weights are part of the session and of its key.
 */
import { type GraphSession, openGraphSession } from "./graph-session.ts";
import type { LaneOptions } from "./lanes.ts";
import type { ExternalTensors } from "./onnx/serialize.ts";
import type { PolicyShape } from "./policy-shape.ts";
import type { TracedGraph } from "./trace/trace.ts";

const sessions = new Map<string, Promise<GraphSession>>();

/**
 * @param graph a name that, with the options, determines `trace` and `staysOnDevice`: these two are not part of the key.
 * @param staysOnDevice whether an output stays on the device.
 */
export function sharedSession(
  graph: string,
  shape: PolicyShape,
  options: LaneOptions,
  trace: (shape: PolicyShape) => TracedGraph,
  external: ExternalTensors = new Map(),
  staysOnDevice: (output: string) => boolean = () => false,
): Promise<GraphSession> {
  const { threads, provider, precision, packsWeights = false, quantized, multipliesCodes = false } = options;
  const weights = [packsWeights, quantized?.path, multipliesCodes, ...external];
  const key = JSON.stringify([graph, threads, provider, precision, shape, ...weights]);
  const known = sessions.get(key);
  if (known) return known;
  const traced = trace(shape);
  const onDevice = traced.graph.outputs.map(({ name }) => name).filter(staysOnDevice);
  const session = openGraphSession(traced, options, external, onDevice);
  sessions.set(key, session);
  // A later attempt may succeed, for instance once another process has freed its memory.
  session.catch(() => sessions.delete(key));
  return session;
}
