/** @file Arrays as tensors on the device: a graph that hands its inputs over as they are, and whose outputs stay there. */

import { type Feeds, type GraphSession, openGraphSession } from "./graph-session.ts";
import type { LaneOptions } from "./lanes.ts";

/** By the names and shapes of what they take. */
const sessions = new Map<string, Promise<GraphSession>>();

/** Of float32 feeds. Whoever asks disposes of them. */
export async function uploadToDevice(feeds: Feeds, { threads, provider }: LaneOptions): Promise<Feeds> {
  const ports = Object.entries(feeds).map(([name, { dims }]) => ({ name, type: "float32" as const, dims }));
  if (ports.length === 0) return {};
  const uploaded = (name: string) => `device:${name}`;
  const key = JSON.stringify([threads, provider, ports]);
  const known = sessions.get(key);
  const graph = {
    name: "upload",
    nodes: ports.map(({ name }) => {
      return { op: "Identity", domain: "", inputs: [name], outputs: [uploaded(name)], attributes: {} };
    }),
    inputs: ports,
    outputs: ports.map((port) => ({ ...port, name: uploaded(port.name) })),
    constants: [],
  };
  const names = graph.outputs.map(({ name }) => name);
  const opening = known ?? openGraphSession({ graph, shapeInputs: [] }, { threads, provider }, new Map(), names);
  sessions.set(key, opening);
  const outputs = await (await opening).tensors({}, feeds);
  return Object.fromEntries(ports.map(({ name }) => [name, outputs[uploaded(name)] as Feeds[string]]));
}
