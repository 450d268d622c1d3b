/**
 * @file A run's weights do not depend on when its trainers compute gradients: while other workers are still sampling, or once all sampling
 * is done. In one process.
 */
import { expect, test, vi } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import { StepRecord } from "../../core/contracts/records.ts";
import type { Store } from "../../core/ports.ts";
import { openCheckpoints } from "../../gpu-workers/checkpoints.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { begin, openWorld, startWorker, withEvents } from "../fixtures/relay/world.ts";

const config = relayConfig({ steps: 1, questionsPerStep: 9 });
const log = createLog(() => {});
const AGENTS = ["main", "searcher"];

/** Both agents' weights and optimizer states after one step. `work` starts the workers; `through` wraps the store. */
async function trained(work: (store: Store, memory: Store) => Promise<unknown>, through = (memory: Store) => memory) {
  const memory = memoryStore();
  const { functions } = openWorld(memory);
  const store = withEvents(through(memory), () => functions, log);
  await begin(store, functions, config);
  await work(store, memory);
  return Promise.all(AGENTS.map(async (agent) => (await openCheckpoints(config.run, memory).find(agent, 1))?.files));
}

const start = (store: Store, agent: string, roles: ("rollout" | "train")[], stop = new AbortController()) =>
  startWorker(store, config.run, { agent, roles }, stop.signal, log);

const together = (store: Store) => Promise.all(AGENTS.map((agent) => start(store, agent, ["rollout", "train"])));

async function samplingThenTraining(store: Store, { table }: Store) {
  const stop = new AbortController();
  const workers = AGENTS.map((agent) => start(store, agent, ["rollout"], stop));
  const step = async () => StepRecord.parse(await table.get(tableKeys.step(config.run, 0)));
  await vi.waitFor(async () => expect((await step()).state).toBe("ready"), 60_000);
  stop.abort();
  await Promise.all([...workers, ...AGENTS.map((agent) => start(store, agent, ["train"]))]);
}

/** Commits the outcomes of the first four groups after those of the others. */
function lastFirst(memory: Store): Store {
  let others = (9 - 4) * config.rolloutsPerQuestion;
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  return {
    ...memory,
    objects: {
      ...memory.objects,
      async commit(key, body) {
        const group = /\/outcomes\/\d+\/0*(\d+)\//.exec(key)?.[1];
        if (group !== undefined && Number(group) < 4) await ended;
        const won = await memory.objects.commit(key, body);
        if (group !== undefined && Number(group) >= 4 && --others === 0) end();
        return won;
      },
    },
  };
}

test("gradients computed during sampling, after it, or with the first groups committed last give byte-identical checkpoints", async () => {
  const atOnce = await trained(together);
  expect(atOnce.every((files) => files?.["optimizer.safetensors"])).toBe(true);
  expect(await trained(samplingThenTraining)).toEqual(atOnce);
  expect(await trained(together, lastFirst)).toEqual(atOnce);
});
