/**
 * @file Rollouts of later steps start while agents still train on the current one: those of the next step once an agent
 * has published its new version, and with `staleness` before any agent has trained. The run's records are the same
 * whatever the timing. In one process, with a policy whose samples depend on its weights.
 */
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { GroupRecord, RunRecord, StepRecord } from "../../core/contracts/records.ts";
import type { Store } from "../../core/ports.ts";
import { ageOf } from "../../core/training/step-plan.ts";
import { claimUnclaimedGroup, endRun, resumeRun } from "../../core/training/writes.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { relaySampling } from "../fixtures/relay/policy.ts";
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

/** A started run that has no workers yet. `onSample` gets the stream of every sample. */
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
  const watched = relaySampling((sample) => (request, signal) => {
    onSample(request.stream);
    return sample(request, signal);
  });
  const workers = () =>
    AGENTS.map((agent) => startWorker(store, run, { agent }, stop.signal, log, { engineOf: () => watched }));
  const more = (agent: string) =>
    startWorker(store, run, { agent, roles: ["rollout"] }, stop.signal, log, { engineOf: () => watched });
  return { workers, more, functions, records: async () => recordsOf(memory, config) };
}

async function undisturbed(config: RunConfig) {
  const { workers, records } = await openRun(config);
  await Promise.all(workers());
  const undisturbedRecords = await records();
  memory = memoryStore();
  return undisturbedRecords;
}

/** `begun` resolves at the agent's first sample in the step. */
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

test("an agent samples for a step that is not open yet, while another still trains; no invocation is committed before the step opens", async () => {
  const config = relayConfig({ steps: 2 });
  const expected = await undisturbed(config);
  const { begun, onSample } = firstSample("main", 1);
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

/** Seconds: long enough for a busy machine, and different from every other timer of these runs. */
const LIMITS = { rolloutSeconds: 99, invocationSeconds: 98 };

/** Watches the time limits that are running. `end` expires them, as if the time had passed. `started`: how many have started. */
function watchLimits() {
  const running = new Map<unknown, () => void>();
  const { setTimeout: start, clearTimeout: clear } = globalThis;
  let count = 0;
  vi.spyOn(globalThis, "setTimeout").mockImplementation(((run: () => void, milliseconds?: number) => {
    const timer = start(run, milliseconds);
    if (Object.values(LIMITS).some((seconds) => seconds * 1000 === milliseconds)) {
      running.set(timer, run);
      count += 1;
    }
    return timer;
  }) as typeof setTimeout);
  vi.spyOn(globalThis, "clearTimeout").mockImplementation((timer) => {
    running.delete(timer);
    clear(timer);
  });
  onTestFinished(() => void vi.restoreAllMocks());
  return {
    started: () => count,
    end() {
      for (const run of running.values()) run();
    },
  };
}

test("the time before a step is open counts against no limit", async () => {
  const config = relayConfig({ steps: 2, limits: { ...LIMITS, attempts: 1 } });
  const limits = watchLimits();
  const { begun, onSample } = firstSample("main", 1);
  const { workers, records } = await openRun(
    config,
    async (key) => {
      if (key !== manifest) return;
      await begun;
      // Long enough for a limit that starts too early to start.
      await new Promise((resolve) => setTimeout(resolve, 1000));
      limits.end();
    },
    onSample,
  );
  await Promise.all(workers());
  // One for each of four rollouts in each of two steps.
  expect(limits.started()).toBeGreaterThanOrEqual(8);
  const { status, steps } = await records();
  expect(status).toBe("finished");
  expect(JSON.stringify(steps)).not.toContain("excluded");
  expect(warnings).toEqual([]);
});

const pipelined = (changes: object = {}) =>
  relayConfig({ steps: 4, staleness: 1, algorithm: { tisCap: 2 }, ...changes });

const outcomes = (step: number) =>
  memory.objects.keys().filter((key) => key.startsWith(`runs/${run}/outcomes/00000${step}/`)).length;

test("staleness: the next step is sampled to its end while this one trains, from versions that are one step old", async () => {
  const config = pipelined();
  const expected = await undisturbed(config);
  const { workers, records } = await openRun(config, async (key) => {
    // The searcher's first version comes only once step 1 has all of its four rollouts.
    if (key === manifest) await vi.waitFor(() => expect(outcomes(1)).toBe(4), 60_000);
  });
  await Promise.all(workers());
  expect(await records()).toEqual(expected);
  expect(warnings).toEqual([]);
  const ages = [0, 1, 2, 3].map(async (step) => {
    const record = StepRecord.parse(await memory.table.get(tableKeys.step(run, step)));
    return ageOf(config, record, "main");
  });
  expect(await Promise.all(ages)).toEqual([0, 1, 1, 1]);
});

test("staleness: one slow rollout does not hold up the rollouts of the next step", async () => {
  const config = pipelined({ steps: 2 });
  const expected = await undisturbed(config);
  const slow = objectKeys.outcome({ run, phase: "train", step: 0, group: 0, rollout: 0 });
  const { workers, records } = await openRun(config, async (key) => {
    if (key === slow) await vi.waitFor(() => expect(outcomes(1)).toBe(4), 60_000);
  });
  await Promise.all(workers());
  expect(await records()).toEqual(expected);
  expect(warnings).toEqual([]);
});

test("staleness: a rollout that a dead worker had claimed ends before any rollout of a later step begins, and changes no record", async () => {
  const config = pipelined({ steps: 2 });
  const expected = await undisturbed(config);
  const suspect = objectKeys.outcome({ run, phase: "train", step: 0, group: 0, rollout: 0 });
  /** For each turn of the main agent in step 1: whether the suspect rollout had ended when the turn was sampled. */
  const hadEnded: boolean[] = [];
  const { workers, records } = await openRun(config, undefined, (stream) => {
    if (stream[2] === 1 && stream[5] === "main") hadEnded.push(memory.objects.keys().includes(suspect));
  });
  await memory.table.update(claimUnclaimedGroup({ run, step: 0, group: 0 }, [0], "gone"));
  await Promise.all(workers());
  expect(new Set(hadEnded)).toEqual(new Set([true]));
  expect(await records()).toEqual(expected);
});

test("staleness: the number of workers that sample does not change the records", async () => {
  const config = pipelined({ steps: 3 });
  const expected = await undisturbed(config);
  const { workers, more, records } = await openRun(config);
  await Promise.all([...workers(), more("main"), more("searcher")]);
  expect(await records()).toEqual(expected);
});

test("staleness: in a run with replacement rounds, slow rollouts do not change the records", async () => {
  const config = pipelined({ steps: 3, dynamicSampling: { rounds: 1 } });
  const expected = await undisturbed(config);
  const { workers, records } = await openRun(config, async (key) => {
    if (key.includes("/outcomes/000000/")) await new Promise((resolve) => setTimeout(resolve, 200));
  });
  await Promise.all(workers());
  expect(await records()).toEqual(expected);
});

test("when the run is halted while a later step is sampled early, that step's claims are released, and the resumed run ends with the same records", async () => {
  const config = relayConfig({ steps: 2 });
  const expected = await undisturbed(config);
  const { begun, onSample } = firstSample("main", 1);
  let isHeld = true;
  const { workers, functions, records } = await openRun(
    config,
    async (key) => {
      if (key === manifest && isHeld) {
        await begun;
        await memory.table.update(endRun(run, { code: "user", reason: "enough" }));
        isHeld = false;
      }
    },
    onSample,
  );
  for (const { status } of await Promise.allSettled(workers())) expect(status).toBe("rejected");
  // Claims are given back; rollouts that had ended are scored a moment later.
  await vi.waitFor(async () => {
    for (const group of [0, 1]) {
      const { claims = {}, rollouts, crashes } = await groupOf(1, group);
      expect(Object.keys(claims).filter((k) => !rollouts[k])).toEqual([]);
      expect(crashes).toEqual({});
    }
  }, 60_000);
  await memory.table.update(resumeRun(run));
  await functions.tick({ run });
  await Promise.all(workers());
  expect(await records()).toEqual(expected);
});
