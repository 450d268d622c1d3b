/** @file Whole runs in one process, on the store in memory. */
import { expect, test } from "vitest";
import { objectKeys } from "../../core/contracts/keys.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { StepTelemetry } from "../../core/contracts/telemetry.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { PolicyEngine, Store } from "../../core/ports.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { repeatingTable } from "../fakes/repeating-table.ts";
import { relayEngine } from "../fixtures/relay/policy.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { begin, openRun, openWorld, recordsOf, startWorker, withEvents } from "../fixtures/relay/world.ts";

const config = relayConfig({
  evaluation: { suites: [{ name: "sampled" }, { name: "closed", temperature: 0, closedBook: true, when: "ends" }] },
});

/** @param change of the store that functions and workers use. */
async function runOnce(change = (store: Store) => store) {
  const log = createLog(() => {});
  const memory = memoryStore();
  const { functions } = openWorld(change(memory));
  const store = withEvents(change(memory), () => functions, log);
  await begin(store, functions, config);
  const never = new AbortController().signal;
  await Promise.all([
    startWorker(store, config.run, {}, never, log),
    startWorker(store, config.run, { agent: "searcher" }, never, log),
    startWorker(store, config.run, { agent: "*", roles: ["eval"] }, never, log),
  ]);
  return { records: await recordsOf(memory, config), memory };
}

const { records, memory } = await runOnce();

test("a run finishes with every group finalized and every version published, and a second run gives the same result", async () => {
  expect(records).toMatchObject({
    status: "finished",
    steps: [{ state: "closed" }, { state: "closed" }, { state: "closed" }],
  });
  const { steps, weights, evaluations } = records;
  for (const { rollouts, finalized } of steps.flatMap(({ groups }) => groups)) {
    expect(Object.keys(rollouts)).toEqual(["0", "1"]);
    expect(finalized).toHaveProperty("main");
  }
  // Six groups with six different questions.
  const questionIds = steps.flatMap(({ groups }) => groups.map(({ questionId }) => questionId));
  expect(new Set(questionIds).size).toBe(6);
  for (const agent of ["main", "searcher"]) expect(weights[agent]).toHaveLength(config.steps + 1);
  expect(new Set(weights["main"]).size).toBe(config.steps + 1);
  expect(evaluations.map(({ team, state, n }) => ({ team, state, n }))).toEqual(
    [0, 0, 3, 3].map((team) => ({ team, state: "done", n: 6 })),
  );
  // Without tools the closed-book team finds no answer.
  expect(Math.max(...evaluations.filter(({ suite }) => suite === "closed").map(({ correct }) => correct))).toBe(0);
  expect(await memory.objects.get(objectKeys.team("relay", 3))).toBeDefined();
  expect((await runOnce()).records).toEqual(records);
});

test("a run that writes every record twice, since each first response is lost, gives the same result", async () => {
  const repeated = await runOnce((store) => ({ ...store, table: repeatingTable(store.table) }));
  expect(repeated.records).toEqual(records);
});

test("the main agent's worker records its conversations of every step, and when it sampled and trained", async () => {
  const keys = memory.objects.keys().filter((key) => /^runs\/relay\/telemetry\/\d+\/workers\//.test(key));
  const stored = keys.map(async (key) => parseJson(StepTelemetry, (await memory.objects.get(key)) ?? "", key));
  const measured = (await Promise.all(stored)).filter(({ agent }) => agent === "main");
  expect(measured.map(({ step }) => step).sort()).toEqual([0, 1, 2]);
  for (const { sampling, training } of measured)
    for (const [start, end] of [...sampling, ...training]) expect(end).toBeGreaterThanOrEqual(start);
  // An interval belongs to the step that the worker knows as the current one, so a step that ends at once may have none.
  expect(measured.every(({ conversations }) => Object.keys(conversations).length > 0)).toBe(true);
  expect(measured.some(({ sampling }) => sampling.length > 0)).toBe(true);
  expect(measured.some(({ training }) => training.length > 0)).toBe(true);
});

test("if the server refuses to delete expired versions, a warning names each, and the run finishes", async () => {
  const lines: string[] = [];
  const log = createLog((line) => void lines.push(line));
  const { config, store } = await openRun(log, { steps: 4, retention: { last: 2 } });
  const refused = new MgrpoError("endpoint-refused", "DELETE answered 403");
  const engine = { ...relayEngine, discard: () => Promise.reject(refused) };
  const never = new AbortController().signal;
  await Promise.all(
    ["main", "searcher"].map((agent) =>
      startWorker(store, config.run, { agent }, never, log, { engineOf: () => engine }),
    ),
  );
  expect(await recordsOf(store, config)).toMatchObject({ status: "finished" });
  const kept = lines.filter((line) => line.includes("an expired version stays on the server"));
  expect(new Set(kept.map((line) => JSON.parse(line).version))).toEqual(new Set([1, 2]));
});

test("a step does not wait until the log-probs of the previous one are stored", async () => {
  const log = createLog(() => {});
  const never = new AbortController().signal;
  const { config, store } = await openRun(log, { steps: 2 });
  const slow = objectKeys.trainedTokens(config.run, 0, "main");
  let hasWritten = false;
  const commit: typeof store.objects.commit = async (key, ...given) => {
    if (key === slow) {
      await expect
        .poll(() => store.objects.head(objectKeys.manifest(config.run, "main", 2)), { timeout: 60_000 })
        .toBeDefined();
      hasWritten = true;
    }
    return store.objects.commit(key, ...given);
  };
  const slowStore = { ...store, objects: { ...store.objects, commit } };
  await Promise.all(["main", "searcher"].map((agent) => startWorker(slowStore, config.run, { agent }, never, log)));
  expect(hasWritten).toBe(true);
});

test("a refreshed reference that its engine loses is loaded again, and the run ends with the same weights", async () => {
  const log = createLog(() => {});
  const never = new AbortController().signal;
  let losses = 0;
  /** A reference fails after its first refresh until it is loaded again. Only the trainer itself has a journal. */
  const forgetful: PolicyEngine = {
    ...relayEngine,
    async openTrainer(...given) {
      const trainer = await relayEngine.openTrainer(...given);
      const [, , journal] = given;
      if (journal) return trainer;
      let loads = 0;
      return {
        ...trainer,
        async load(files) {
          loads += 1;
          await trainer.load(files);
        },
        async logProbs(...sequences) {
          if (loads !== 1) return trainer.logProbs(...sequences);
          losses += 1;
          throw new MgrpoError("replay-failed", "the engine thread ended");
        },
      };
    },
  };
  const [healthy, recovered] = await Promise.all(
    [relayEngine, forgetful].map(async (engine) => {
      const changes = { steps: 3, algorithm: { minibatches: 2, kl: { coefficient: 0.1, refreshEvery: 1 } } };
      const { config, store } = await openRun(log, changes);
      const parts = { engineOf: () => engine };
      await Promise.all(
        ["main", "searcher"].map((agent) => startWorker(store, config.run, { agent }, never, log, parts)),
      );
      return recordsOf(store, config);
    }),
  );
  expect(losses).toBeGreaterThan(0);
  expect(recovered).toMatchObject({ status: "finished" });
  expect(recovered).toEqual(healthy);
});
