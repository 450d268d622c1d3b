/** @file The functions on the local cloud, called by its events: DynamoDB and S3 over HTTP, as in a local run. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { RunRecord, StepRecord } from "../../core/contracts/records.ts";
import type { CloudHandlers } from "../../core/ports.ts";
import { composeFunctions } from "../../functions/compose.ts";
import { cloudHandlers } from "../../functions/handler.ts";
import { setEnvironment } from "../fakes/environment.ts";
import { playRollout, prepare, publish, rewards, teamConfig } from "../fakes/scripted-team.ts";

test("a run of two steps finishes by events alone: it stores its last team, queues its evaluations and logs no error", async () => {
  const directory = mkdtempSync(join(tmpdir(), "functions-"));
  let handlers: CloudHandlers | undefined;
  const cloud = await startLocalCloud({
    directory,
    tickSeconds: 3600,
    handlers: {
      objectCreated: async (event) => handlers?.objectCreated(event),
      tick: async () => handlers?.tick(),
    },
  });
  const restoreEnvironment = setEnvironment(cloud.environment);
  const { MGRPO_TABLE = "", MGRPO_BUCKET = "" } = cloud.environment;
  const store = openAwsStore({ table: MGRPO_TABLE, bucket: MGRPO_BUCKET });
  onTestFinished(async () => {
    await cloud.close();
    store.close();
    restoreEnvironment();
    rmSync(directory, { recursive: true });
  });
  const lines: string[] = [];
  const functions = composeFunctions(store, { rewardsOf: async () => rewards, isLongLived: true });
  handlers = cloudHandlers(functions, (line) => lines.push(line));

  const config = teamConfig({ steps: 2, questionsPerStep: 2 });
  await functions.startRun(await prepare(store.objects, config));
  const readStep = (n: number) => store.table.get(tableKeys.step(config.run, n));
  const stepAt = async (n: number, state: StepRecord["state"]) => {
    await expect.poll(async () => [(await readStep(n))?.["state"], lines]).toEqual([state, []]);
    return StepRecord.parse(await readStep(n));
  };
  for (let n = 0; n < config.steps; n++) {
    const step = await stepAt(n, "open");
    const rollouts = step.groups.flatMap((_, g) => [0, 1, 2].map((k) => [g, k] as const));
    await Promise.all(rollouts.map(([g, k]) => playRollout(store.objects, config, step, g, k)));
    for (const agent of (await stepAt(n, "ready")).trained) await publish(store.objects, config, agent, n + 1);
    await stepAt(n, "closed");
  }
  const readRun = async () => RunRecord.parse(await store.table.get(tableKeys.run(config.run)));
  await expect.poll(readRun).toMatchObject({ status: "finished" });
  expect(await store.objects.head(objectKeys.team(config.run, 2))).toBeGreaterThan(0);
  expect(await store.table.query(tableKeys.run(config.run).pk, "JOB#")).toHaveLength(4);
  expect(lines).toEqual([]);
});
