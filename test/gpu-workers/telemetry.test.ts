/** @file Telemetry of workers, for display only: latencies and the trainer's log-probs are stored, and a run without them ends the same. */
import { expect, test } from "vitest";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { GroupRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { Outcome } from "../../core/contracts/rollout.ts";
import { StepTelemetry, trajectoryName } from "../../core/contracts/telemetry.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import { readTrainedTokens } from "../../engine/trained-tokens.ts";
import { LatencyLog } from "../../gpu-workers/latencies.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { openRun, recordsOf, startWorker } from "../fixtures/relay/world.ts";

const never = new AbortController().signal;

async function trainOneStep(wrap: (store: Store) => Store = (store) => store) {
  const lines: string[] = [];
  const log = createLog((line) => void lines.push(line));
  const { config, store } = await openRun(log);
  await Promise.all([
    startWorker(wrap(store), config.run, {}, never, log),
    startWorker(wrap(store), config.run, { agent: "searcher" }, never, log),
  ]);
  const groups = await Promise.all(
    [0, 1].map(async (group) => GroupRecord.parse(await store.table.get(tableKeys.group(config.run, 0, group)))),
  );
  return { config, store, groups, lines };
}

async function latenciesOf({ table, objects }: Store, run: string) {
  const workers = (await table.query(tableKeys.run(run).pk, tablePrefixes.workers)).map((one) =>
    WorkerRecord.parse(one),
  );
  const found = workers.map(async ({ worker, agent }): Promise<[string, StepTelemetry["conversations"]]> => {
    const key = objectKeys.stepTelemetry(run, 0, worker);
    return [agent, parseJson(StepTelemetry, (await objects.get(key)) ?? "", key).conversations];
  });
  return Object.fromEntries(await Promise.all(found));
}

test("the latencies of every turn and call of a step are stored, including those of delegated conversations", async () => {
  const { config, store, groups } = await trainOneStep();
  const { main = {}, searcher = {} } = await latenciesOf(store, config.run);
  const rollouts = groups.flatMap(({ group, rollouts }) => Object.keys(rollouts).map((k) => `${group}/${k}`));
  expect(Object.keys(main).sort()).toEqual(rollouts);
  for (const name of rollouts) {
    const [group = 0, rollout = 0] = name.split("/").map(Number);
    const key = objectKeys.outcome({ run: config.run, phase: "train", step: 0, group, rollout });
    const outcome = parseJson(Outcome, (await store.objects.get(key)) ?? "", key);
    if (outcome.status !== "finished") throw new Error(key);
    const measured = main[name]?.map(({ calls }) => calls.length);
    expect(measured, name).toEqual(outcome.conversation.turns.map(({ responses }) => responses.length));
  }
  const turns = Object.values(main).flat();
  const calls = turns.flatMap((turn) => turn.calls);
  expect(turns.every(({ sampling }) => sampling >= 0 && sampling < 60)).toBe(true);
  expect(Object.keys(searcher)).toHaveLength(calls.length);
  for (const name of Object.keys(searcher)) expect(rollouts).toContain(name.split("/").slice(0, 2).join("/"));
});

test("takeBefore takes the conversations of all earlier steps, each once", () => {
  const latencies = new LatencyLog();
  const turns = [{ sampling: 1, calls: [] }];
  for (const step of [0, 1, 2]) latencies.add({ run: "r", phase: "train", step, group: 0, rollout: 3 }, [], turns);
  expect([...latencies.takeBefore(2)]).toEqual([0, 1].map((step) => [step, { "0/3": turns }]));
  expect([...latencies.takeBefore(2)]).toEqual([]);
  expect([...latencies.takeBefore(Number.POSITIVE_INFINITY).keys()]).toEqual([2]);
});

test("the trainer's log-probs are stored for exactly those of the main agent's trajectories that have a nonzero advantage", async () => {
  const { config, store, groups } = await trainOneStep();
  const key = objectKeys.trainedTokens(config.run, 0, "main");
  const file = (await store.objects.get(key)) ?? expect.fail(key);
  for (const { group, finalized } of groups) {
    const { trajectories = [], advantages = [] } = finalized["main"] ?? {};
    for (const [i, rollout] of trajectories.entries()) {
      const found = readTrainedTokens(file, trajectoryName(group, rollout, 0), key);
      expect(found !== undefined, `${group}/${rollout}`).toBe(advantages[i] !== 0);
      expect(found?.clipped ?? []).toEqual([]);
    }
  }
});

test("if the store refuses telemetry, the run warns and ends with the same records and weights", async () => {
  const refused = new MgrpoError("disk-full", "no space");
  const wrap = (store: Store): Store => ({
    ...store,
    objects: {
      ...store.objects,
      commit: (key, body) => (key.includes("/telemetry/") ? Promise.reject(refused) : store.objects.commit(key, body)),
    },
  });
  const [stored, lost] = [await trainOneStep(), await trainOneStep(wrap)];
  expect(await recordsOf(lost.store, lost.config)).toEqual(await recordsOf(stored.store, stored.config));
  expect(lost.lines.join("\n")).toContain("telemetry could not be stored");
  expect(lost.lines.join("\n")).toContain("the trainer's log-probs could not be stored");
});
