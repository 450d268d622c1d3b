/**
 * @file Each worker, and the process of the functions, dies at each of its writes, before or after it is done, and starts again: the
 * run ends with the same scores, seals and weights as if nothing had happened. All in one process, so that every commit point can be
 * tried; the same with real processes is in processes.test.ts.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createLog } from "../../gpu-workers/log.ts";
import type { WorkerOptions } from "../../gpu-workers/serve.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { begin, openWorld, recordsOf, startWorker, withEvents } from "../fixtures/relay/world.ts";
import { Killed, mortalStore } from "./mortal-store.ts";

const config = relayConfig({
  steps: 2,
  evaluation: { suites: [{ name: "all", questions: 3 }] },
  liveness: { heartbeatSeconds: 0.1, leaseSeconds: 0.5, pollSeconds: 0.01 },
});
const team = {
  main: { agent: "main", roles: ["rollout", "train"] },
  searcher: { agent: "searcher", roles: ["rollout", "train"] },
  eval: { agent: "*", roles: ["eval"] },
} as const satisfies Record<string, Partial<WorkerOptions>>;
type Worker = keyof typeof team;
type Name = Worker | "functions";
const everybody: Name[] = [...(Object.keys(team) as Worker[]), "functions"];

interface Death {
  readonly who: Name;
  readonly at: number;
  readonly when: "before" | "after";
}

async function runWith(death?: Death) {
  const log = createLog(() => {});
  const memory = memoryStore();
  const writes: Partial<Record<Name, number>> = {};
  let killed = false;
  const never = new AbortController().signal;

  const doomedFunctions = death?.who === "functions" ? death : undefined;
  // What the functions commit has events too: they write through `store`, which asks for them.
  const mortal = mortalStore(
    withEvents(memory, () => functions, log),
    doomedFunctions?.at,
    doomedFunctions?.when,
  );
  let { functions } = openWorld(mortal.store);
  const store = withEvents(memory, () => functions, log);
  const revive = () => {
    if (!mortal.isDead() || killed) return false;
    killed = true;
    ({ functions } = openWorld(store));
    return true;
  };
  // Nobody tells of the death: the clock of the next process finds what its events were about.
  const clock = setInterval(() => {
    revive();
    if (mortal.isDead()) functions.tickAll().catch((error: unknown) => log.error("clock", { error: String(error) }));
  }, 25);
  await begin(store, functions, config).catch(async (error: unknown) => {
    if (!mortal.isDead()) throw error;
    revive();
    await begin(store, functions, config);
  });

  async function live(name: Worker) {
    const doomed = death?.who === name ? death : undefined;
    const first = mortalStore(store, doomed?.at, doomed?.when);
    try {
      await startWorker(first.store, config.run, team[name], never, log);
    } catch (error) {
      if (!(error instanceof Killed)) throw error;
      killed = true;
      await startWorker(store, config.run, team[name], never, log);
    }
    writes[name] = first.writes();
  }
  await Promise.all((Object.keys(team) as Worker[]).map(live)).finally(() => clearInterval(clock));
  writes.functions = mortal.writes();
  return { records: await recordsOf(memory, config), writes, killed };
}

let expected: Awaited<ReturnType<typeof runWith>>;
beforeAll(async () => {
  expected = await runWith();
}, 60_000);

/** Every write, before it is done; that is also after the one before it. Where writes overlap it is not, so some of those too. */
function deathsOf(who: Name, writes: number): Death[] {
  return Array.from({ length: writes }, (_, at) => at).flatMap((at): Death[] => [
    { who, at, when: "before" },
    ...(at % 3 === 0 ? [{ who, at, when: "after" } as const] : []),
  ]);
}

describe.concurrent.each(everybody)("%s dies at a write", (who) => {
  test("and the run ends with the same records", { timeout: 240_000 }, async () => {
    const queue = deathsOf(who, expected.writes[who] ?? 0);
    const planned = queue.length;
    let died = 0;
    const lane = async () => {
      for (let death = queue.shift(); death; death = queue.shift()) {
        const { records, killed } = await runWith(death);
        expect(records, JSON.stringify(death)).toEqual(expected.records);
        died += killed ? 1 : 0;
      }
    };
    await Promise.all(Array.from({ length: 6 }, lane));
    // Heartbeats are writes too, and a quick run has fewer of them.
    expect(died).toBeGreaterThan(planned * 0.6);
  });
});
