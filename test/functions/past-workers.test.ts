/** @file A scheduled tick removes the records of workers that have been dead for an hour; their telemetry can still be read. */
import { expect, test } from "vitest";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { RunRecord, type WorkerRecord } from "../../core/contracts/records.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { recordBytes } from "../../gpu-workers/identity.ts";
import { readTelemetry } from "../../gpu-workers/step-telemetry.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { prepare, rewards, teamConfig } from "../fakes/scripted-team.ts";

const MINUTE = 60_000;

test.each(["running", "finished, with evaluations left"])(
  "in a run that is %s, the record of a worker that has been dead for an hour is removed, and its telemetry stays readable",
  async (state) => {
    const store = memoryStore();
    let time = MINUTE;
    store.clock.storeTime = async () => time;
    const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
    await functions.startRun(await prepare(store.objects, teamConfig({ evaluation: { suites: [{ name: "all" }] } })));
    if (state !== "running")
      await store.table.update({ key: tableKeys.run("test"), set: [[["status"], "finished"]], when: [] });
    const record = (worker: string, part: Partial<WorkerRecord>): WorkerRecord => ({
      ...{ run: "test", worker, agent: "main", roles: ["rollout"], url: "", state: "dead", release: "1" },
      ...{ counter: 9, seenCounter: -1, seenAt: 0, inFlight: [] },
      ...part,
    });
    for (const one of [record("gone", {}), record("here", { state: "alive", counter: 0 })])
      await store.table.insert(tableKeys.worker("test", one.worker), one);
    const telemetry = {
      run: "test",
      step: 0,
      worker: "gone",
      agent: "main",
      sampling: [],
      training: [],
      conversations: {},
    };
    await store.objects.commit(objectKeys.stepTelemetry("test", 0, "gone"), recordBytes(telemetry));
    const minutes = async (count: number) => {
      for (let i = 0; i < count; i++) {
        time += MINUTE;
        await store.table.update({ key: tableKeys.worker("test", "here"), add: [[["counter"], 1]], when: [] });
        await functions.tickAll();
      }
      const items = await store.table.query(tableKeys.run("test").pk, tablePrefixes.workers);
      return items.map(({ worker }) => worker);
    };
    expect(await minutes(61)).toEqual(["gone", "here"]);
    expect(await minutes(1)).toEqual(["here"]);
    const { past } = RunRecord.parse(await store.table.get(tableKeys.run("test")));
    expect(past).toEqual({ moves: 1, heartbeats: { main: 9 }, newest: ["gone"] });
    expect(await readTelemetry(store, "test", 0)).toEqual([telemetry]);
  },
);
