/**
 * @file Sessions shared by graph and policy shape: fed weights are not part of a graph, so all versions of a policy share one session.
 * Memory-mapped weights are part of the session and of its key.
 *
 *     opened ──its last user ends──> unused ──the same key is asked for──> opened
 *                                      '──another session with mapped weights opens──> released
 *
 * A session without mapped weights has no users and is never released. An unused session stays for the next version of an adapter, whose
 * base it maps and may have packed.
 */
import { MgrpoError } from "../../core/errors.ts";
import { fileIdentity } from "../checkpoint/files.ts";
import { type GraphSession, openGraphSession } from "./graph-session.ts";
import type { LaneOptions } from "./lanes.ts";
import type { MappedTensors } from "./open-weights.ts";
import type { PolicyShape } from "./policy-shape.ts";
import type { TracedGraph } from "./trace/trace.ts";

interface SharedSession {
  readonly opening: Promise<GraphSession>;
  /** The open weights of the samplers and trainers that use the session. Undefined: the session maps no weights. */
  readonly users: Set<MappedTensors> | undefined;
}

const sessions = new Map<string, SharedSession>();

/**
 * @param graph a name that, with the options, determines `trace` and `staysOnDevice`: these two are not part of the key.
 * @param external the caller's own map of memory-mapped weights: the caller uses the session until `endUse(external)`.
 * @param staysOnDevice whether an output stays on the device.
 */
export function sharedSession(
  graph: string,
  shape: PolicyShape,
  options: LaneOptions,
  trace: (shape: PolicyShape, options: LaneOptions) => TracedGraph,
  external: MappedTensors = new Map(),
  staysOnDevice: (output: string) => boolean = () => false,
): Promise<GraphSession> {
  const { threads, provider, precision, dedicated = false } = options;
  const { packsWeights = false, quantized, multipliesCodes = false } = options;
  const weights = [packsWeights, quantized?.path, multipliesCodes, ...external];
  const key = JSON.stringify([graph, threads, provider, precision, dedicated, shape, ...weights]);
  const known = sessions.get(key);
  known?.users?.add(external);
  if (known) return known.opening;
  const open = async () => {
    if (external.size > 0) await releaseUnused();
    refuseReplaced(external);
    const traced = trace(shape, options);
    const onDevice = traced.graph.outputs.map(({ name }) => name).filter(staysOnDevice);
    return openGraphSession(traced, options, external, onDevice);
  };
  const opening = open();
  sessions.set(key, { opening, users: external.size > 0 ? new Set([external]) : undefined });
  // A failure is not cached: a later attempt may succeed, for instance once another process has freed its memory.
  opening.catch(() => {
    // After `releaseUnused`, the key may belong to a newer session.
    if (sessions.get(key)?.opening === opening) sessions.delete(key);
  });
  return opening;
}

/** The sampler or trainer that opened `external` makes no more calls. */
export function endUse(external: MappedTensors): void {
  for (const { users } of sessions.values()) users?.delete(external);
}

async function releaseUnused(): Promise<void> {
  const unused = [...sessions].filter(([, { users }]) => users?.size === 0);
  for (const [key] of unused) sessions.delete(key);
  for (const [, { opening }] of unused) {
    // A session that fails to open has nothing to release, and its error concerns only the calls that asked for it.
    const session = await opening.catch(() => undefined);
    await session?.release();
  }
}

/** A session may open long after the weights: it must not map another file's bytes. */
function refuseReplaced(external: MappedTensors): void {
  for (const { path, identity } of external.values()) {
    if (fileIdentity(path) === identity) continue;
    const fault = `${path} has changed since the model was opened: keep its files as they are while it is open`;
    throw new MgrpoError("checkpoint-damaged", fault);
  }
}
