/** @file Reading a run whose process is gone consumes none of its events; a read waits while the process is ending or the store is about to close. */
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { withRunStore } from "../../cli/local/open-store.ts";
import { readStatus, runFolder, writeStatus } from "../../cli/local/run-folder.ts";
import { chdirToProject } from "./command-line.ts";
import { recordRun } from "./recorded-run.ts";
import { RUN } from "./records.ts";

const project = chdirToProject();
/** How long a read may wait; the tests of waiting act half a second after it begins. */
const PATIENCE_SECONDS = 100;

test("a read does not consume an event that a killed process did not handle: the next process with handlers gets it", async () => {
  await recordRun(project);
  const { cloud: directory } = runFolder(RUN);
  const handled: string[] = [];
  const start = (objectCreated: (key: string) => Promise<void>) =>
    startLocalCloud({
      directory,
      handlers: { objectCreated: ({ detail }) => objectCreated(detail.object.key), tick: async () => {} },
      report: () => {},
    });
  const killed = await start(async () => {
    throw new Error("killed");
  });
  await killed.direct.objects.commit("left", new Uint8Array([1]));
  await killed.close();
  expect(await withRunStore(runFolder(RUN), (store) => store.objects.get("left"))).toEqual(new Uint8Array([1]));
  const resumed = await start(async (key) => void handled.push(key));
  await expect.poll(() => handled).toContain("left");
  await resumed.close();
});

/** The process that trains the run, according to its status. */
const training = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
afterAll(() => training.kill());

const NO_CLOUD = {
  AWS_ENDPOINT_URL: "http://127.0.0.1:9",
  ...{ AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "any", AWS_SECRET_ACCESS_KEY: "any" },
  ...{ MGRPO_TABLE: "mgrpo", MGRPO_BUCKET: "mgrpo" },
};

test("a read waits while the process that trains the run is ending", async () => {
  await recordRun(project);
  const folder = runFolder(RUN);
  const finished = readStatus(folder);
  // The status still says `running`, but the cloud that it names is already closed.
  writeStatus(folder, { ...finished, state: "running", pid: training.pid ?? 0, environment: NO_CLOUD });
  const reading = withRunStore(folder, (store) => store.objects.get("no such key"), PATIENCE_SECONDS);
  await sleep(500);
  writeStatus(folder, finished);
  expect(await reading).toBeUndefined();
});

test("a read waits for a store that is still open elsewhere and about to close", async () => {
  await recordRun(project);
  const closing = await startLocalCloud({ directory: runFolder(RUN).cloud });
  const reading = withRunStore(runFolder(RUN), (store) => store.objects.get("no such key"), PATIENCE_SECONDS);
  await sleep(500);
  await closing.close();
  expect(await reading).toBeUndefined();
});
