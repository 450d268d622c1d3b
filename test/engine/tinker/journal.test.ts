/**
 * @file A trainer that takes over from a dead one: when it resumes the dead one's model, when it redoes the step on a
 * fresh model, and who may write the journal. Engine and server only; kill.long.test.ts has whole runs.
 */
import { expect, test, vi } from "vitest";
import { OptimizerConfig } from "../../../core/contracts/agent-config.ts";
import { tableKeys } from "../../../core/contracts/keys.ts";
import { TinkerCallsRecord } from "../../../core/contracts/tinker-calls.ts";
import type { CheckpointFiles, PolicyEngine, Trainer } from "../../../core/ports.ts";
import { readTinkerVersion } from "../../../engine/tinker/version.ts";
import { callJournal } from "../../../gpu-workers/training/call-journal.ts";
import { bigramEngine, bigramFiles } from "../../fakes/bigram-engine.ts";
import { memoryStore } from "../../fakes/memory-store.ts";
import { SKYRL_JAX } from "../../fakes/tinker-models.ts";
import { OPTIONS } from "../tiny.ts";
import { bytesOf, tinyTinker } from "./tiny-tinker.ts";

const ADAM = { ...OptimizerConfig.parse({ learningRate: 0.1 }), maxGradientNorm: null };
/** More than one request of 128 tokens. */
const BATCH = [1, 2, 3].map((n) => Array.from({ length: 60 }, (_, t) => (t * n) % 29));
const OTHER = BATCH.map((tokens) => tokens.map((token) => (token + 1) % 29));

function open() {
  const { server, connect, files, stateOf } = tinyTinker({
    engine: bigramEngine,
    files: bigramFiles(30),
    options: OPTIONS,
    rules: SKYRL_JAX,
  });
  const store = memoryStore();
  const journalOf = (worker: string) => callJournal({ name: "r", store }, "main", worker);
  return {
    ...{ server, files, connect },
    start: (worker: string, engine: PolicyEngine = connect(), from: CheckpointFiles = files) =>
      engine.openTrainer(from, OPTIONS, journalOf(worker)),
    async written() {
      const item = await store.table.get(tableKeys.calls("r", "main"));
      return item && TinkerCallsRecord.parse(item).calls;
    },
    /** Computed calls of each kind, without the probe's: only its model is saved for sampling. */
    counts: () => {
      const sampled = new Set(
        server.calls.flatMap(({ path, body }) => (path === "save_weights_for_sampler" ? [body["model_id"]] : [])),
      );
      const computed = server.models.computed.filter(({ model }) => !sampled.has(model)).map(({ kind }) => kind);
      return ["forward", "forward_backward", "optim_step"].map((kind) => computed.filter((one) => one === kind).length);
    },
    /** The saved weights, in hex. */
    weightsOf: (saved: CheckpointFiles) =>
      Buffer.from(bytesOf(stateOf(saved)).get("model.safetensors") ?? expect.fail("no weights")).toString("hex"),
  };
}

async function pass(trainer: Trainer, batch = BATCH) {
  const sequences = batch.map((tokens) => ({ tokens, weights_T: new Float32Array(tokens.length).fill(-1) }));
  await trainer.forwardBackward(sequences, { kind: "linear" }, 1);
}
async function step(trainer: Trainer, batch = BATCH) {
  await pass(trainer, batch);
  await trainer.optimizerStep(ADAM);
}

/** The weights of an uninterrupted process after one step or more, each on the same batch. */
const alone = new Map<string, Promise<string>>();
function undisturbed(batch = BATCH, steps = 1): Promise<string> {
  const key = `${batch.join()} ${steps}`;
  const weights = alone.get(key) ?? train(batch, steps);
  alone.set(key, weights);
  return weights;
}
async function train(batch: number[][], steps: number) {
  const { start, weightsOf } = open();
  const trainer = await start("alone");
  for (let n = 0; n < steps; n++) await step(trainer, batch);
  return weightsOf(await trainer.save());
}

test("each call is journaled before it is made, in one item of constant size", async () => {
  const { server, connect, start, written } = open();
  const seen: (readonly [number, number | undefined])[] = [];
  const watching = connect({
    async fetch(url, init) {
      const { seq_id, model_id } = JSON.parse(String(init.body ?? "{}"));
      const calls = await written();
      if (seq_id !== undefined && calls?.model === model_id) seen.push([seq_id, calls?.last]);
      return server.fetch(url, init);
    },
  });
  const trainer = await start("one", watching);
  await step(trainer);
  const size = JSON.stringify(await written()).length;
  await trainer.save();
  await step(trainer);
  expect(seen.length).toBeGreaterThan(8);
  for (const [sent, last] of seen) expect(last).toBe(sent);
  expect(Math.abs(JSON.stringify(await written()).length - size)).toBeLessThan(5);
});

test("a step that has begun is continued: finished calls are not computed again", async () => {
  const { start, counts, weightsOf } = open();
  const before = await start("dead");
  await step(before);
  await pass(before);
  const atDeath = counts();
  const after = await start("successor");
  await step(after);
  expect(counts()).toEqual(atDeath);
  await step(after);
  expect(weightsOf(await after.save())).toBe(await undisturbed(BATCH, 2));
  expect(counts()).toEqual([4, 4, 2]);
});

test("a step is replayed until its version is published; after that, only the calls since that version are replayed", async () => {
  const { start, files, connect, counts, weightsOf } = open();
  const before = await start("dead");
  await step(before);
  const saved = await before.save();
  const successor = await start("successor");
  await step(successor);
  const savedAgain = await successor.save();
  expect(weightsOf(savedAgain)).toBe(weightsOf(saved));
  // A copy under another name, since SkyRL does not number saves.
  expect(readTinkerVersion(savedAgain).weights).not.toBe(readTinkerVersion(saved).weights);
  expect(counts()).toEqual([2, 2, 1]);
  const published = new Map([...files, ...savedAgain]);
  await step(successor);
  const last = await start("last", connect(), published);
  await step(last);
  expect(counts()).toEqual([4, 4, 2]);
  expect(weightsOf(await last.save())).toBe(await undisturbed(BATCH, 2));
});

/** A server that recognizes a repeated call by its number alone. */
function byNumberAlone(send: (url: string, init: RequestInit) => Promise<Response>) {
  const responses = new Map<string, Response>();
  return async (url: string, init: RequestInit) => {
    const { model_id, seq_id } = JSON.parse(String(init.body ?? "{}"));
    const key = `${model_id} ${seq_id}`;
    const known = seq_id === undefined ? undefined : responses.get(key);
    const response = known ?? (await send(url, init));
    responses.set(key, response.clone());
    return response;
  };
}

type World = ReturnType<typeof open>;
const errorResponse = (status: number, detail: string) => new Response(JSON.stringify({ detail }), { status });

/** Takes over from a process that took one step or two; `fails` then makes calls that are not those of the dead process, or cannot be repeated. */
type Begin = (world: World) => Promise<{ successor: Trainer; fails: () => Promise<unknown> }>;

const failingAt =
  (failedPath: string, status: number, detail: string): Begin =>
  async ({ start, server }) => {
    await step(await start("dead"));
    const successor = await start("successor");
    const fails = () => {
      server.injectFaults(({ path }) => (path === failedPath ? errorResponse(status, detail) : undefined));
      return step(successor).finally(() => server.injectFaults(() => undefined));
    };
    return { successor, fails };
  };

test.each<[string, Begin]>([
  [
    "another batch",
    async ({ start }) => {
      await step(await start("dead"));
      const successor = await start("successor");
      return { successor, fails: () => step(successor, OTHER) };
    },
  ],
  [
    "another batch, on a server that recognizes a call by its number alone",
    async ({ start, connect, server }) => {
      const shared = connect({ fetch: byNumberAlone(server.fetch) });
      await step(await start("dead", shared));
      const successor = await start("successor", shared);
      return { successor, fails: () => step(successor, OTHER) };
    },
  ],
  [
    "fewer calls than were made",
    async ({ start }) => {
      const dead = await start("dead");
      await step(dead);
      await step(dead);
      const successor = await start("successor");
      await step(successor);
      return { successor, fails: () => successor.save() };
    },
  ],
  ["results that expired", failingAt("retrieve_future", 410, "expired")],
  ["a server that lost the model", failingAt("forward", 400, "Model not loaded")],
])("%s: the replay fails, and the step is done on a fresh model", async (_, begin) => {
  const world = open();
  const { successor, fails } = await begin(world);
  await expect(fails()).rejects.toMatchObject({ code: "replay-failed", retryable: true });
  expect(await world.written()).toBeNull();
  await successor.load(world.files);
  await step(successor, OTHER);
  expect(world.weightsOf(await successor.save())).toBe(await undisturbed(OTHER));
});

test.each<[string, (world: World, dead: Trainer) => Promise<CheckpointFiles | undefined>]>([
  [
    "that was closed",
    async (_, dead) => {
      await dead.close();
      return undefined;
    },
  ],
  [
    "that the server unloaded",
    async ({ server, written }) => {
      const body = JSON.stringify({ model_id: (await written())?.model });
      await server.fetch("http://any/api/v1/unload_model", { method: "POST", body });
      return undefined;
    },
  ],
  [
    "whose session is another server's",
    async ({ server }) => {
      server.injectFaults(({ path }) =>
        path === "session_heartbeat" ? errorResponse(404, "Session not found") : undefined,
      );
      return undefined;
    },
  ],
  [
    "whose calls are journaled for another version",
    async ({ files, start }) => {
      const other = await start("other");
      await step(other);
      return new Map([...files, ...(await other.save())]);
    },
  ],
])("a model %s is not resumed", async (_, end) => {
  const world = open();
  const dead = await world.start("dead");
  await step(dead);
  const from = await end(world, dead);
  const before = world.counts();
  const trainer = await world.start("successor", world.connect(), from);
  await step(trainer);
  await trainer.save();
  expect(world.counts()).toEqual(before.map((n, i) => n + ([2, 2, 1][i] ?? 0)));
});

test("a session in which no model can be opened gets no heartbeat", async () => {
  const { server, start } = open();
  await step(await start("dead"));
  let created = 0;
  server.injectFaults(({ path }) => {
    if (path === "get_info") return errorResponse(404, "Model not found");
    return path === "create_model" && ++created === 2 ? errorResponse(400, "no memory left") : undefined;
  });
  const sessionsOf = (wanted: string, since: number) =>
    server.calls.slice(since).flatMap(({ path, body }) => (path === wanted ? [body["session_id"]] : []));
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  try {
    const started = server.calls.length;
    await expect(start("successor")).rejects.toMatchObject({ code: "endpoint-refused" });
    // The successor probed in its shared session, resumed the dead trainer's session, then opened one for its own model.
    const [shared, own] = sessionsOf("create_model", started);
    expect(own).toBeDefined();
    expect(own).not.toBe(shared);
    const ended = server.calls.length;
    vi.advanceTimersByTime(10_000);
    while (sessionsOf("session_heartbeat", ended).length === 0) await new Promise(setImmediate);
    expect(sessionsOf("session_heartbeat", ended)).toEqual([shared]);
  } finally {
    vi.useRealTimers();
  }
});

test("two trainers at once: the replaced one makes no further call and leaves the model alone", async () => {
  const { server, start, weightsOf, counts } = open();
  const slow = await start("slow");
  await pass(slow);
  const successor = await start("successor");
  const callsBefore = server.calls.length;
  await expect(slow.optimizerStep(ADAM)).rejects.toMatchObject({ code: "claim-lost" });
  await slow.close();
  expect(server.calls.length).toBe(callsBefore);
  await step(successor);
  expect(weightsOf(await successor.save())).toBe(await undisturbed());
  expect(counts()).toEqual([2, 2, 1]);
  await successor.close();
  expect(server.models.loaded).toEqual([]);
});

test("a trainer without a journal, such as a reference policy's, unloads its model when it is closed", async () => {
  const { connect, files, server } = open();
  const trainer = await connect().openTrainer(files, OPTIONS);
  await step(trainer);
  await trainer.close();
  expect(server.models.loaded).toEqual([]);
});
