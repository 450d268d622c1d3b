/** @file Callers with the same graph, policy shape and options share a session. */
import { expect, test } from "vitest";
import { traceExtend } from "../../engine/compiled/graphs/extend.ts";
import type { PolicyShape } from "../../engine/compiled/policy-shape.ts";
import { sharedSession } from "../../engine/compiled/shared-sessions.ts";
import type { TracedGraph } from "../../engine/compiled/trace/trace.ts";
import { OPTIONS, TINY } from "./tiny.ts";

const options = { ...OPTIONS, provider: "cpu" } as const;
const shape: PolicyShape = { config: TINY, lora: null };

/** A graph whose outputs no node computes, which the runtime refuses. */
function traceNothing(of: PolicyShape): TracedGraph {
  const traced = traceExtend(of);
  return { ...traced, graph: { ...traced.graph, nodes: [] } };
}

test("callers share one session; one that failed to open is opened again", async () => {
  const open = (trace: typeof traceExtend) => sharedSession("shared", shape, options, trace);
  await expect(open(traceNothing)).rejects.toThrow();
  const session = await open(traceExtend);
  expect(await open(traceExtend)).toBe(session);
});
