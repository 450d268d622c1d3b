/**
 * @file Objects in the bucket that were replaced after their hash was recorded, or deleted: the error names each, and no
 * worker trains on it or evaluates it. A trajectory replaced before it was scored: the trainer uses the replacement, which was scored.
 * A port in use: the error names it. One process, the store in memory.
 */
import { beforeEach, expect, test, vi } from "vitest";
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { JobRecord, StepRecord } from "../../core/contracts/records.ts";
import type { Store } from "../../core/ports.ts";
import type { Functions } from "../../functions/functions.ts";
import { openCheckpoints } from "../../gpu-workers/checkpoints.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { begin, openWorld, startWorker, withEvents } from "../fixtures/relay/world.ts";

const log = createLog(() => {});
const never = new AbortController().signal;
const run = "relay";
let memory: ReturnType<typeof memoryStore>;
let store: Store;
let functions: Functions;

beforeEach(() => {
  memory = memoryStore();
  ({ functions } = openWorld(memory));
  store = withEvents(memory, () => functions, log);
});

/** Replaces an object as anyone who may write to the bucket can: without a condition, and without an event. */
async function replace(key: string, change: (text: string) => string) {
  const before = new TextDecoder().decode(await memory.objects.get(key));
  const after = change(before);
  expect(after).not.toBe(before);
  await memory.objects.delete([key]);
  await memory.objects.commit(key, new TextEncoder().encode(after));
}

const stepOf = async (config: RunConfig) => StepRecord.parse(await memory.table.get(tableKeys.step(config.run, 0)));

/** A step with all rollouts scored, before training. */
async function readyToTrain(): Promise<RunConfig> {
  const config = relayConfig({ steps: 1 });
  await begin(store, functions, config);
  const stop = new AbortController();
  const rollout = { roles: ["rollout" as const] };
  const workers = [
    startWorker(store, run, rollout, stop.signal, log),
    startWorker(store, run, { ...rollout, agent: "searcher" }, stop.signal, log),
  ];
  await vi.waitFor(async () => expect((await stepOf(config)).state).toBe("ready"), 60_000);
  stop.abort();
  await Promise.all(workers);
  return config;
}

/** Still a valid record, with another first token in its trajectory. */
const otherTokens = (text: string) => text.replace(/"tokens":\[\d+/, (before) => `${before}0`);

test.each(["main", "searcher"])(
  "%s: a trajectory replaced after scoring is refused, and no version is published",
  async (agent) => {
    await readyToTrain();
    const folder = agent === "main" ? "outcomes" : "invocations";
    const [key = ""] = memory.objects.keys().filter((name) => name.startsWith(`runs/${run}/${folder}/`));
    await replace(key, otherTokens);
    await expect(startWorker(store, run, { agent, roles: ["train"] }, never, log)).rejects.toMatchObject({
      code: "record-damaged",
      message: expect.stringMatching(`^${key} was replaced after it was scored: its digest is .* restore it`),
    });
    expect(await memory.objects.get(objectKeys.manifest(run, agent, 1))).toBeUndefined();
  },
);

test("a worker does not train on the trajectory in its memory if another was scored", async () => {
  const config = relayConfig({ steps: 1 });
  await begin(store, functions, config);
  // Each outcome is replaced between its commit and its score.
  const tampering: Store = {
    ...memory,
    objects: {
      ...memory.objects,
      async commit(key, body) {
        const won = await memory.objects.commit(key, body);
        if (key.includes("/outcomes/")) await replace(key, otherTokens);
        return won;
      },
    },
  };
  const stop = new AbortController();
  const searcher = startWorker(store, run, { agent: "searcher" }, stop.signal, log);
  await startWorker(
    withEvents(tampering, () => functions, log),
    run,
    {},
    never,
    log,
  );
  stop.abort();
  await searcher;
  // The trainer trained on the scored outcome, which it read from the store.
  const { files } = (await openCheckpoints(run, memory).find("main", 1)) ?? expect.fail("not trained");
  memory = memoryStore();
  ({ functions } = openWorld(memory));
  store = withEvents(memory, () => functions, log);
  await begin(store, functions, config);
  await Promise.all([
    startWorker(store, run, {}, never, log),
    startWorker(store, run, { agent: "searcher" }, never, log),
  ]);
  const untouched = (await openCheckpoints(run, memory).find("main", 1)) ?? expect.fail("not trained");
  expect(untouched.files["model.safetensors"]).not.toEqual(files["model.safetensors"]);
});

test.each([
  [objectKeys.questions(run), (text: string) => text.replace('"answer":"', '"answer":"not ')],
  [objectKeys.config(run), (text: string) => text.replace('"seed":7', '"seed":8')],
])("%s was replaced: no worker starts, and the functions refuse the run", async (key, change) => {
  await begin(store, functions, relayConfig());
  await replace(key, change);
  const refused = {
    code: "record-damaged",
    message: expect.stringMatching(`^${key} is not the one that .* started with: restore it`),
  };
  await expect(startWorker(store, run, {}, never, log)).rejects.toMatchObject(refused);
  // New functions, as in a new process: they have cached neither object.
  await expect(openWorld(memory).functions.tick({ run })).rejects.toMatchObject(refused);
});

test("if a part that a manifest names is missing, the worker's error names it; once it is restored, the step is trained", async () => {
  const config = relayConfig({ steps: 1 });
  await begin(store, functions, config);
  const manifest = await openCheckpoints(run, memory).manifest("searcher", 0);
  const part = objectKeys.part(run, manifest.files["model.safetensors"]?.sha256 ?? "");
  const weights = (await memory.objects.get(part)) ?? expect.fail("no weights");
  await memory.objects.delete([part]);
  const main = startWorker(store, run, {}, never, log);
  await expect(startWorker(store, run, { agent: "searcher" }, never, log)).rejects.toMatchObject({
    code: "checkpoint-damaged",
    message: `${part} (model.safetensors of agent 'searcher') is missing: restore it`,
  });
  expect((await stepOf(config)).state).toBe("open");
  await memory.objects.commit(part, weights);
  await Promise.all([main, startWorker(store, run, { agent: "searcher" }, never, log)]);
  expect(await openCheckpoints(run, memory).find("searcher", 1)).toBeDefined();
});

test("a manifest of another version is refused; one that its team does not name is not evaluated", async () => {
  const config = relayConfig({ steps: 1, evaluation: { suites: [{ name: "sampled" }] } });
  await begin(store, functions, config);
  const key = objectKeys.manifest(run, "main", 0);
  await replace(key, (text) => text.replace("{", "{ "));
  const evaluator = { agent: "*", roles: ["eval" as const] };
  await expect(startWorker(store, run, evaluator, never, log)).rejects.toMatchObject({
    code: "checkpoint-damaged",
    message: `${key} is not the one that its team names; it was replaced: restore it`,
  });
  const jobs = await memory.table.query(tableKeys.run(run).pk, tablePrefixes.jobs);
  expect(jobs).not.toEqual([]);
  expect(jobs.map((item) => JobRecord.parse(item).state)).not.toContain("done");
  await replace(key, (text) => text.replace('"version":0', '"version":3'));
  await expect(openCheckpoints(run, memory).find("main", 0)).rejects.toThrow(/is the manifest of version 3 of agent/);
});

test("a second worker on the same port is refused, and told what to pass instead", async () => {
  await begin(store, functions, relayConfig());
  const stop = new AbortController();
  const lines: string[] = [];
  const first = startWorker(
    store,
    run,
    { agent: "searcher" },
    stop.signal,
    createLog((line) => void lines.push(line)),
  );
  await vi.waitFor(() => expect(lines.join("")).toContain("registered"), 60_000);
  const port = Number(/127\.0\.0\.1:(\d+)/.exec(lines.join(""))?.[1]);
  await expect(startWorker(store, run, { agent: "searcher", port }, never, log)).rejects.toMatchObject({
    code: "cannot-listen",
    message: `port ${port} on 127.0.0.1 is in use: pass another --port, or 0 for any free one`,
  });
  stop.abort();
  await first;
});
