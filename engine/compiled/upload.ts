/** @file Copies arrays to the device: a graph that returns its inputs unchanged and whose outputs stay on the device. */
import { type Feeds, type GraphSession, openGraphSession } from "./graph-session.ts";
import type { LaneOptions } from "./lanes.ts";

/** Keyed by threads, provider, and the names and shapes of the inputs. */
const sessions = new Map<string, Promise<GraphSession>>();

/** `feeds` are float32. The caller disposes of the result. */
export async function uploadToDevice(feeds: Feeds, { threads, provider }: LaneOptions): Promise<Feeds> {
  const ports = Object.entries(feeds).map(([name, { dims }]) => ({ name, type: "float32" as const, dims }));
  if (ports.length === 0) return {};
  const outputName = (name: string) => `device:${name}`;
  const key = JSON.stringify([threads, provider, ports]);
  const known = sessions.get(key);
  const graph = {
    name: "upload",
    nodes: ports.map(({ name }) => {
      return { op: "Identity", domain: "", inputs: [name], outputs: [outputName(name)], attributes: {} };
    }),
    inputs: ports,
    outputs: ports.map((port) => ({ ...port, name: outputName(port.name) })),
    constants: [],
  };
  const names = graph.outputs.map(({ name }) => name);
  const opening = known ?? openGraphSession({ graph, shapeInputs: [] }, { threads, provider }, new Map(), names);
  sessions.set(key, opening);
  // A failure is not cached: the device's memory may be full only temporarily.
  opening.catch(() => sessions.delete(key));
  const outputs = await (await opening).runToTensors({}, feeds);
  return Object.fromEntries(ports.map(({ name }) => [name, outputs[outputName(name)] as Feeds[string]]));
}
