/** @file A graph session that could not be opened is opened again at the next use: its failure is not kept. */
import { expect, test } from "vitest";
import type { ExecutionProvider } from "../../core/contracts/engine.ts";
import { tensor } from "../../engine/compiled/graph-session.ts";
import type { LaneOptions } from "../../engine/compiled/lanes.ts";
import type { PolicyShape } from "../../engine/compiled/policy-shape.ts";
import { sharedSession } from "../../engine/compiled/shared-sessions.ts";
import type { TracedGraph } from "../../engine/compiled/trace/trace.ts";
import { uploadToDevice } from "../../engine/compiled/upload.ts";
import { OPTIONS } from "./tiny.ts";

const UNAVAILABLE: LaneOptions = { ...OPTIONS, provider: "unavailable" as string as ExecutionProvider };

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => expect.fail("no failure"),
    (error: unknown) => error,
  );

test("an upload after a failed one tries again", async () => {
  const upload = () => failureOf(uploadToDevice({ x: tensor(new Float32Array(1), [1]) }, UNAVAILABLE));
  const first = await upload();
  expect(first).toBeInstanceOf(Error);
  expect(await upload()).not.toBe(first);
});

test("a shared session that failed to open is traced and opened again", async () => {
  const graph = { name: "none", nodes: [], inputs: [], outputs: [], constants: [] };
  let traces = 0;
  const trace = (): TracedGraph => {
    traces += 1;
    return { graph, shapeInputs: [] };
  };
  const open = () => failureOf(sharedSession("failing", {} as PolicyShape, UNAVAILABLE, trace));
  expect(await open()).toBeInstanceOf(Error);
  expect(traces).toBe(1);
  await open();
  expect(traces).toBe(2);
});
