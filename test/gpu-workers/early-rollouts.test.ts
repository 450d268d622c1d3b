/**
 * @file Rollouts of the next step begin while others still train this one, and with weights that are still on their way to the store. A run's
 * records do not tell. In one process, with a policy that says something else if its weights are others.
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

/** What happens before an object is committed; false: it was there already. */
type Commit = (key: string) => Promise<unknown>;

/** The run to its end, its searcher's samplers watched. */
async function ends(
  config: RunConfig,
  before: Commit = async () => {},
  said: (stream: readonly unknown[]) => void = () => {},
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
    async openSampler(...asked) {
      const sampler = await relayEngine.openSampler(...asked);
      return {
        ...sampler,
        sample(request, signal) {
          said(request.stream);
          return sampler.sample(request, signal);
        },
      };
    },
  };
  const workers = () =>
    AGENTS.map((agent) => startWorker(store, run, { agent }, stop.signal, log, { engineOf: () => watched }));
  return { workers, functions, finished: async () => recordsOf(memory, config) };
}

async function undisturbed(config: RunConfig) {
  const { workers, finished } = await ends(config);
  await Promise.all(workers());
  const records = await finished();
  memory = memoryStore();
  return records;
}

/** Resolves at the first turn of this agent in this step. */
function turns(agent: string, step: number) {
  let begin = () => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  return { begun, said: (stream: readonly unknown[]) => stream[2] === step && stream[5] === agent && begin() };
}

const manifest = objectKeys.manifest(run, "searcher", 1);
const groupOf = async (step: number, group: number) =>
  GroupRecord.parse(await memory.table.get(tableKeys.group(run, step, group)));
const stepOfRun = async () => RunRecord.parse(await memory.table.get(tableKeys.run(run))).step;

test("both agents are asked in a step that is not the run's yet, of weights that are not stored yet, and nothing of it counts before", async () => {
  const config = relayConfig({ steps: 2 });
  const expected = await undisturbed(config);
  const { begun, said } = turns("searcher", 1);
  const early: string[] = [];
  const { workers, finished } = await ends(
    config,
    async (key) => {
      if (key !== manifest) return;
      await begun;
      // Time for what should wait to be committed all the same.
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(await stepOfRun()).toBe(0);
      early.push(...memory.objects.keys().filter((one) => one.startsWith(`runs/${run}/invocations/000001/`)));
    },
    said,
  );
  await Promise.all(workers());
  expect(early).toEqual([]);
  expect(await finished()).toEqual(expected);
  expect(warnings).toEqual([]);
});

test("the time in which a step waits for its turn counts against no limit", async () => {
  const config = relayConfig({ steps: 2, limits: { rolloutSeconds: 6, invocationSeconds: 5, attempts: 1 } });
  const { begun, said } = turns("searcher", 1);
  const { workers, finished } = await ends(
    config,
    async (key) => {
      if (key !== manifest) return;
      await begun;
      await new Promise((resolve) => setTimeout(resolve, 7000));
    },
    said,
  );
  await Promise.all(workers());
  const { status, steps } = await finished();
  expect(status).toBe("finished");
  expect(JSON.stringify(steps)).not.toContain("excluded");
  expect(warnings).toEqual([]);
});

test("a run that is halted meanwhile gets its claims back, and goes on to the same end", async () => {
  const config = relayConfig({ steps: 2 });
  const expected = await undisturbed(config);
  const { begun, said } = turns("main", 1);
  let isHeld = true;
  const { workers, functions, finished } = await ends(
    config,
    async (key) => {
      if (key === manifest && isHeld) {
        await begun;
        await memory.table.update(endRun(run, "halted", "enough"));
        isHeld = false;
      }
    },
    said,
  );
  for (const { status } of await Promise.allSettled(workers())) expect(status).toBe("rejected");
  // A worker that ends of an error gives back what it can meanwhile.
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
  expect(await finished()).toEqual(expected);
});

/** With which the searcher's trainer foresees nothing. */
const presetTakeovers = () =>
  memory.table.update({ key: tableKeys.agent(run, "searcher"), set: [[["takeovers"], 1]], when: [] });

test("weights that another trainer's manifest does not name: what they said is said anew with those that it names", async () => {
  const config = relayConfig({ steps: 2 });
  const { begun, said } = turns("searcher", 1);
  const other = async () => {
    // As of a trainer on a machine that rounds otherwise: here, one that did not move.
    const before = JSON.parse(
      new TextDecoder().decode(await memory.objects.get(objectKeys.manifest(run, "searcher", 0))),
    );
    const bytes = new TextEncoder().encode(JSON.stringify({ ...before, version: 1 }));
    await memory.objects.commit(manifest, bytes);
  };
  const { workers, finished } = await ends(
    config,
    async (key) => {
      if (key !== manifest) return;
      await begun;
      await other();
    },
    said,
  );
  await Promise.all(workers());
  const { status, steps, weights } = await finished();
  expect(status).toBe("finished");
  expect(JSON.stringify(steps)).not.toContain("excluded");
  expect(weights["searcher"]?.[1]).toBe(weights["searcher"]?.[0]);
  expect(warnings).toEqual([]);

  memory = memoryStore();
  const unforeseen = await ends(config, async (key) => (key === manifest ? other() : undefined));
  await presetTakeovers();
  await Promise.all(unforeseen.workers());
  expect((await unforeseen.finished()).steps).toEqual(steps);
});

test("after a takeover nothing is sampled that is not published: its dead may have died of that", async () => {
  const config = relayConfig({ steps: 2 });
  const expected = await undisturbed(config);
  let isPublished = false;
  const early: unknown[] = [];
  const { workers, finished } = await ends(
    config,
    async (key) => {
      if (key !== manifest) return;
      await new Promise((resolve) => setTimeout(resolve, 300));
      isPublished = true;
    },
    (stream) => stream[2] === 1 && stream[5] === "searcher" && !isPublished && early.push(stream),
  );
  await presetTakeovers();
  await Promise.all(workers());
  expect(early).toEqual([]);
  expect(await finished()).toEqual(expected);
});
