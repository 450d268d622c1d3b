/** @file Sessions by graph and model shape: a graph depends on no weights, so every version of a policy shares one. */
import type { ModelConfig } from "../checkpoint/config.ts";
import { openSession, type Session } from "./session.ts";
import type { TracedGraph } from "./trace/trace.ts";

const sessions = new Map<string, Promise<Session>>();

export function sharedSession(
  graph: string,
  config: ModelConfig,
  threads: number,
  trace: (config: ModelConfig) => TracedGraph,
): Promise<Session> {
  const key = JSON.stringify([graph, threads, config]);
  const known = sessions.get(key);
  if (known) return known;
  const session = openSession(trace(config), threads);
  sessions.set(key, session);
  return session;
}
