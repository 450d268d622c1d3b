/**
 * @file Callers with the same graph, policy shape and options share a session. A session with memory-mapped weights is shared only by callers of
 * the same files, and is released when it has no users and a session on other weights opens.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as tf from "@tensorflow/tfjs-core";
import * as ort from "onnxruntime-node";
import { afterAll, expect, onTestFinished, test, vi } from "vitest";
import { EMBEDDING } from "../../engine/checkpoint/parameters.ts";
import { parseCheckpoint } from "../../engine/checkpoint/weights.ts";
import { traceExtend } from "../../engine/compiled/graphs/extend.ts";
import { type OpenWeights, openWeights } from "../../engine/compiled/open-weights.ts";
import type { PolicyShape } from "../../engine/compiled/policy-shape.ts";
import { openCompiledSampler } from "../../engine/compiled/sampling/sampler.ts";
import { endUse, sharedSession } from "../../engine/compiled/shared-sessions.ts";
import { type TracedGraph, traceGraph } from "../../engine/compiled/trace/trace.ts";
import { openLaneTrainer } from "../../engine/compiled/training/lane-trainer.ts";
import { LORA, mapped, OPTIONS, TINY, tinyAdapter, tinyCheckpoint } from "./tiny.ts";

const options = { ...OPTIONS, provider: "cpu" } as const;
const shape: PolicyShape = { config: TINY, lora: null };
const folder = mkdtempSync(join(tmpdir(), "mgrpo-sessions-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A graph whose outputs no node computes, which the runtime refuses. */
function traceNothing(of: PolicyShape): TracedGraph {
  const traced = traceExtend(of, options);
  return { ...traced, graph: { ...traced.graph, nodes: [] } };
}

test("callers share one session; one that failed to open is opened again", async () => {
  const open = (trace: typeof traceExtend) => sharedSession("shared", shape, options, trace);
  await expect(open(traceNothing)).rejects.toThrow();
  const session = await open(traceExtend);
  expect(await open(traceExtend)).toBe(session);
});

test("only on a dedicated machine do threads spin while they wait", async () => {
  const create = vi.spyOn(ort.InferenceSession, "create");
  onTestFinished(() => create.mockRestore());
  for (const dedicated of [false, true])
    await sharedSession("spinning", shape, { ...options, dedicated }, (of) => traceExtend(of, options));
  const spins = create.mock.calls.map(([, created]) => (created as ort.InferenceSession.SessionOptions).extra);
  expect(spins).toMatchObject(["0", "1"].map((allow_spinning) => ({ session: { intra_op: { allow_spinning } } })));
});

/** Model `seed`, memory-mapped from the file `name`. */
const model = (name: string, seed: number) => mapped(tinyCheckpoint(TINY, seed), join(folder, name));

/** A graph that returns the mapped embedding, doubled. */
const traceDouble = () =>
  traceGraph("double", (scope) => {
    const embedding = scope.input<tf.Tensor2D>(EMBEDDING, [TINY.vocabulary, TINY.width]);
    scope.output("doubled", tf.add(embedding, embedding));
  });

const doubleSession = ({ external }: OpenWeights) => sharedSession("double", shape, options, traceDouble, external);

/** What the graph returns for model `seed`. */
const doubledOf = (seed: number) =>
  parseCheckpoint(tinyCheckpoint(TINY, seed))
    .weights.slice(0, TINY.vocabulary * TINY.width)
    .map((value) => 2 * value);

const doubled = async (weights: OpenWeights) => (await (await doubleSession(weights)).run({}, {}))["doubled"];

test("after a model is replaced in its file, a session computes with the new one", async () => {
  for (const seed of [1, 2]) expect(await doubled(openWeights(model("replaced", seed)))).toEqual(doubledOf(seed));
});

test("a file that was replaced after its model was opened is not mapped", async () => {
  const weights = openWeights(model("late", 1));
  model("late", 2);
  const message = /late has changed since the model was opened: keep its files as they are while it is open/;
  await expect(doubleSession(weights)).rejects.toThrow(message);
});

test("a session is released when it has no users and other weights are mapped, not before", async () => {
  const files = model("used", 1);
  const [first, second] = [openWeights(files), openWeights(files)];
  const session = await doubleSession(first);
  expect(await doubleSession(second)).toBe(session);
  endUse(first.external);
  await doubled(openWeights(model("other", 2)));
  await session.run({}, {});
  endUse(second.external);
  const third = openWeights(files);
  expect(await doubleSession(third)).toBe(session);
  endUse(third.external);
  await doubled(openWeights(model("another", 3)));
  await expect(session.run({}, {})).rejects.toThrow();
  expect(await doubled(openWeights(files))).toEqual(doubledOf(1));
});

test("a session that fails to open after its last use neither makes another one fail nor removes its successor", async () => {
  const files = model("gone", 1);
  const [gone, again] = [openWeights(files), openWeights(files)];
  const open = (trace: () => TracedGraph, { external }: OpenWeights) =>
    sharedSession("failing", shape, options, trace, external);
  const failure = expect(open(() => traceNothing(shape), gone)).rejects.toThrow();
  endUse(gone.external);
  const unrelated = doubled(openWeights(model("unrelated", 2)));
  const successor = open(traceDouble, again);
  expect(await unrelated).toEqual(doubledOf(2));
  await failure;
  expect(await open(traceDouble, again)).toBe(await successor);
  endUse(again.external);
});

const REQUEST = { sequence: "a", tokens: [5, 6], maxTokens: 2, stop: [], stream: [1] };
const GREEDY = { temperature: 0, topP: 1, topK: 0 };

/** Files of this test that the process maps. */
const mappedNames = (names: readonly string[]) => {
  const maps = readFileSync("/proc/self/maps", "utf8");
  return names.filter((name) => maps.includes(join(folder, name)));
};

test.runIf(process.platform === "linux")(
  "after a sampler or trainer is closed, only its own model is still mapped",
  async () => {
    const names = ["sampler-1", "sampler-2", "trainer-1", "trainer-2"];
    for (const [i, name] of names.entries()) {
      if (name.startsWith("sampler")) {
        const sampler = await openCompiledSampler(model(name, i), options);
        await sampler.sample({ ...REQUEST, sampling: GREEDY });
        await sampler.close();
      } else {
        const trainer = openLaneTrainer(mapped(tinyAdapter(TINY, LORA, i), join(folder, name)), options);
        await trainer.logProbs([[1, 2, 3]], 1);
        await trainer.close();
      }
      expect(mappedNames(names)).toEqual([name]);
    }
  },
);
