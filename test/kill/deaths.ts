/**
 * @file Each worker, and the process of the functions, dies at each of its writes, before and after the write, and starts again. The run
 * ends with the same scores, finalized groups and weights as without deaths. The deaths are simulated in one process, so that every commit
 * point can be tried; processes.test.ts kills real processes at some of them.
 *
 * Each run has up to one death of every process, which takes fewer runs than one death per run. A death before write n
 * is almost the same as a death after write n - 1. The two are paired with different deaths of the other processes, so that no other
 * restart hides the same damage twice.
 */
import { beforeAll, describe, expect, test } from "vitest";
import type { RunConfig } from "../../core/contracts/config.ts";
import { createLog } from "../../gpu-workers/log.ts";
import type { ServeWorkerOptions, WorkerParts } from "../../gpu-workers/worker-process.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { begin, openWorld, recordsOf, startWorker, withEvents } from "../fixtures/relay/world.ts";
import { Killed, mortalStore } from "./mortal-store.ts";

/** Settings of a run with few writes. */
export const SHORT_RUN = {
  steps: 2,
  evaluation: { suites: [{ name: "all", questions: 3 }] },
  liveness: { heartbeatSeconds: 0.1, leaseSeconds: 0.5, pollSeconds: 0.01 },
};

/** A worker for each agent, and one that evaluates. */
const workersOf = (config: RunConfig): [string, Partial<ServeWorkerOptions>][] => [
  ...Object.keys(config.agents).map((agent): [string, Partial<ServeWorkerOptions>] => [
    agent,
    { agent, roles: ["rollout", "train"] },
  ]),
  ["eval", { agent: "*", roles: ["eval"] }],
];
/** The name of a worker, or `functions`. */
type Name = string;

/** Which processes die in this run, and at which write. */
interface Deaths {
  readonly when: "before" | "after";
  readonly at: Partial<Record<Name, number>>;
}

const WHEN = ["before", "after"] as const;

async function runWith(config: RunConfig, parts: Partial<WorkerParts>, { when, at }: Deaths) {
  const log = createLog(() => {});
  const memory = memoryStore();
  const writes: Partial<Record<Name, number>> = {};
  /** Writes without heartbeats: a slow run has as many as a fast one. */
  const steady: Partial<Record<Name, number>> = {};
  const died: Name[] = [];
  const over = new AbortController();

  // The functions' own commits cause events too.
  const mortal = mortalStore(
    withEvents(memory, () => functions, log),
    at["functions"],
    when,
  );
  let { functions } = openWorld(mortal.store);
  const store = withEvents(memory, () => functions, log);
  const revive = () => {
    if (!mortal.isDead() || died.includes("functions")) return;
    died.push("functions");
    ({ functions } = openWorld(store));
  };
  // Events of a dead process are lost: a scheduled tick of the next process finds the objects that they announced.
  const clock = setInterval(() => {
    revive();
    if (mortal.isDead()) functions.tickAll().catch((error: unknown) => log.error("clock", { error: String(error) }));
  }, 25);
  await begin(store, functions, config).catch(async (error: unknown) => {
    if (!mortal.isDead()) throw error;
    revive();
    await begin(store, functions, config);
  });

  async function live([name, options]: [string, Partial<ServeWorkerOptions>]) {
    const first = mortalStore(store, at[name], when);
    try {
      await startWorker(first.store, config.run, options, over.signal, log, parts);
    } catch (error) {
      if (!(error instanceof Killed)) throw error;
      died.push(name);
      await startWorker(store, config.run, options, over.signal, log, parts);
    }
    writes[name] = first.writes();
    steady[name] = first.writes() - first.heartbeats();
  }
  await Promise.all(workersOf(config).map(live)).finally(() => {
    clearInterval(clock);
    over.abort();
  });
  writes["functions"] = mortal.writes();
  steady["functions"] = mortal.writes();
  return { records: await recordsOf(memory, config), writes, steady, died };
}

/**
 * For each run, the write at which each process dies. Over all runs, each process dies at each of its writes. Under `after`, the k-th process
 * is k writes ahead, so the deaths of different processes coincide differently than under `before`.
 */
function deathsOf(when: Deaths["when"], writes: Partial<Record<Name, number>>): Deaths["at"][] {
  const counts = Object.entries(writes).map(([name, count = 0], k) => ({
    name,
    count,
    first: when === "before" ? 0 : k,
  }));
  const runs = Math.max(...counts.map(({ count }) => count));
  return Array.from({ length: runs }, (_, n) =>
    Object.fromEntries(counts.flatMap(({ name, count, first }) => (n < count ? [[name, (n + first) % count]] : []))),
  );
}

/** Defines the tests of a run. */
export function testDeaths(config: RunConfig, parts: Partial<WorkerParts> = {}): void {
  let expected: Awaited<ReturnType<typeof runWith>>;
  beforeAll(async () => {
    expected = await runWith(config, parts, { when: "before", at: {} });
    expect(expected.records.status).toBe("finished");
  }, 60_000);

  describe.concurrent.each(WHEN)("each process dies %s each of its writes", (when) => {
    test("and the run ends with the same records", { timeout: 480_000 }, async () => {
      const queue = deathsOf(when, expected.writes);
      const deaths: Record<string, number> = {};
      const runNext = async () => {
        for (let at = queue.shift(); at; at = queue.shift()) {
          const { records, died } = await runWith(config, parts, { when, at });
          expect(records, JSON.stringify({ when, at })).toEqual(expected.records);
          for (const name of died) deaths[name] = (deaths[name] ?? 0) + 1;
        }
      };
      await Promise.all(Array.from({ length: 4 }, runNext)).finally(() => queue.splice(0));
      // Some deaths do not happen: scores that arrive together share a write.
      for (const [name, count = 0] of Object.entries(expected.steady))
        expect(deaths[name], name).toBeGreaterThan(count * 0.6);
    });
  });
}
