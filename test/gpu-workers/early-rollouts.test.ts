/**
 * @file Rollouts of the next step start while other agents still train this one, with weights that are still being stored. The run's
 * records are the same as without early rollouts. In one process, with a policy whose samples depend on its weights.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { GroupRecord, RunRecord } from "../../core/contracts/records.ts";
import type { PolicyEngine, Store } from "../../core/ports.ts";
import { endRun, resumeRun } from "../../core/training/writes.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { relayEngine } from "../fixtures/relay/policy.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { begin, openWorld, recordsOf, startWorker, withEvents } from "../fixtures/relay/world.ts";

const AGENTS = ["main", "searcher"];
const run = "relay";
let memory: ReturnType<typeof memoryStore>;
let warnings: string[];
let stop: AbortController;

beforeEach(() => {
  memory = memoryStore();
  warnings = [];
  stop = new AbortController();
});
afterEach(() => stop.abort());

const log = createLog((line) => {
  if (!line.includes('"level":"info"')) warnings.push(line);
});

/** Runs before each commit of an object. */
type BeforeCommit = (key: string) => Promise<unknown>;

/** A run that is about to start. `onSample` gets the stream of every sample. */
async function openRun(
  config: RunConfig,
  before: BeforeCommit = async () => {},
  onSample: (stream: readonly unknown[]) => void = () => {},
) {
  const { functions } = openWorld(memory);
  const slow: Store = {
    ...memory,
    objects: {
      ...memory.objects,
      async commit(key, body) {
        await before(key);
        return memory.objects.commit(key, body);
      },
    },
  };
  const store = withEvents(slow, () => functions, log);
  await begin(store, functions, config);
  const watched: PolicyEngine = {
    ...relayEngine,
    async openSampler(...args) {
      const sampler = await relayEngine.openSampler(...args);
      return {
        ...sampler,
        sample(request, signal) {
          onSample(request.stream);
          return sampler.sample(request, signal);
        },
      };
    },
  };
  const workers = () =>
    AGENTS.map((agent) => startWorker(store, run, { agent }, stop.signal, log, { engineOf: () => watched }));
  return { workers, functions, records: async () => recordsOf(memory, config) };
}

async function undisturbed(config: RunConfig) {
  const { workers, records } = await openRun(config);
  await Promise.all(workers());
  const undisturbedRecords = await records();
  memory = memoryStore();
  return undisturbedRecords;
}

/** Resolves at the agent's first sample in the step. */
function firstSample(agent: string, step: number) {
  let begin = () => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  return { begun, onSample: (stream: readonly unknown[]) => stream[2] === step && stream[5] === agent && begin() };
}

const manifest = objectKeys.manifest(run, "searcher", 1);
const groupOf = async (step: number, group: number) =>
  GroupRecord.parse(await memory.table.get(tableKeys.group(run, step, group)));
const stepOfRun = async () => RunRecord.parse(await memory.table.get(tableKeys.run(run))).step;

test("both agents sample a step that is not open yet, with weights that are not stored yet; no invocation is committed before it opens", async () => {
  const config = relayConfig({ steps: 2 });
  const expected = await undisturbed(config);
  const { begun, onSample } = firstSample("searcher", 1);
  const early: string[] = [];
  const { workers, records } = await openRun(
    config,
    async (key) => {
      if (key !== manifest) return;
      await begun;
      // Long enough for a premature commit to happen.
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(await stepOfRun()).toBe(0);
      early.push(...memory.objects.keys().filter((name) => name.startsWith(`runs/${run}/invocations/000001/`)));
    },
    onSample,
  );
  await Promise.all(workers());
  expect(early).toEqual([]);
  expect(await records()).toEqual(expected);
  expect(warnings).toEqual([]);
});

test("the time before a step is open counts against no limit", async () => {
  const config = relayConfig({ steps: 2, limits: { rolloutSeconds: 6, invocationSeconds: 5, attempts: 1 } });
  const { begun, onSample } = firstSample("searcher", 1);
  const { workers, records } = await openRun(
    config,
    async (key) => {
      if (key !== manifest) return;
      await begun;
      await new Promise((resolve) => setTimeout(resolve, 7000));
    },
    onSample,
  );
  await Promise.all(workers());
  const { status, steps } = await records();
  expect(status).toBe("finished");
  expect(JSON.stringify(steps)).not.toContain("excluded");
  expect(warnings).toEqual([]);
});

test("when the run is halted meanwhile, early claims are released, and it resumes to the same result", async () => {
  const config = relayConfig({ steps: 2 });
  const expected = await undisturbed(config);
  const { begun, onSample } = firstSample("main", 1);
  let isHeld = true;
  const { workers, functions, records } = await openRun(
    config,
    async (key) => {
      if (key === manifest && isHeld) {
        await begun;
        await memory.table.update(endRun(run, "halted", "enough"));
        isHeld = false;
      }
    },
    onSample,
  );
  for (const { status } of await Promise.allSettled(workers())) expect(status).toBe("rejected");
  // When a worker ends with an error, its loops release their claims in the background.
  await vi.waitFor(async () => {
    for (const group of [0, 1]) {
      const { claims = {}, rollouts, crashes } = await groupOf(1, group);
      expect(Object.keys(claims).filter((k) => !rollouts[k])).toEqual([]);
      expect(crashes).toEqual({});
    }
  });
  await memory.table.update(resumeRun(run));
  await functions.tick({ run });
  await Promise.all(workers());
  expect(await records()).toEqual(expected);
});

/** After a takeover the searcher's trainer preloads nothing. */
const recordTakeover = () =>
  memory.table.update({ key: tableKeys.agent(run, "searcher"), set: [[["takeovers"], 1]], when: [] });

test("another trainer's manifest wins: conversations with the preloaded weights are re-sampled with those it names", async () => {
  const config = relayConfig({ steps: 2 });
  const { begun, onSample } = firstSample("searcher", 1);
  const publishOther = async () => {
    // Stands for a trainer on a machine that rounds differently: version 1 with the weights of version 0.
    const before = JSON.parse(
      new TextDecoder().decode(await memory.objects.get(objectKeys.manifest(run, "searcher", 0))),
    );
    const bytes = new TextEncoder().encode(JSON.stringify({ ...before, version: 1 }));
    await memory.objects.commit(manifest, bytes);
  };
  const { workers, records } = await openRun(
    config,
    async (key) => {
      if (key !== manifest) return;
      await begun;
      await publishOther();
    },
    onSample,
  );
  await Promise.all(workers());
  const { status, steps, weights } = await records();
  expect(status).toBe("finished");
  expect(JSON.stringify(steps)).not.toContain("excluded");
  expect(weights["searcher"]?.[1]).toBe(weights["searcher"]?.[0]);
  expect(warnings).toEqual([]);

  memory = memoryStore();
  const published = await openRun(config, async (key) => (key === manifest ? publishOther() : undefined));
  await recordTakeover();
  await Promise.all(published.workers());
  expect((await published.records()).steps).toEqual(steps);
});

test("after a takeover only published weights are sampled: preloading may have killed the predecessor", async () => {
  const config = relayConfig({ steps: 2 });
  const expected = await undisturbed(config);
  let isPublished = false;
  const early: unknown[] = [];
  const { workers, records } = await openRun(
    config,
    async (key) => {
      if (key !== manifest) return;
      await new Promise((resolve) => setTimeout(resolve, 300));
      isPublished = true;
    },
    (stream) => stream[2] === 1 && stream[5] === "searcher" && !isPublished && early.push(stream),
  );
  await recordTakeover();
  await Promise.all(workers());
  expect(early).toEqual([]);
  expect(await records()).toEqual(expected);
});
