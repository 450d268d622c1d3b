/** @file `mgrpo track` of a run whose steps were closed elsewhere, and of one whose metrics another process sends. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { builtModule } from "../../built-module.ts";
import { createRunFolder, runFolder } from "../../cli/local/run-folder.ts";
import { lockTrackers } from "../../cli/local/tracking.ts";
import { trainLocally } from "../../cli/local/train-locally.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { expiryOf } from "../../core/training/retention.ts";
import { serveHttp } from "../fakes/http-server.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { chdirToProject, parsedLines } from "./command-line.ts";
import { printed } from "./printed.ts";
import { recordRun } from "./recorded-run.ts";
import { config, fillFinishedRun, groups, RUN } from "./records.ts";

const folder = chdirToProject();

test("a step's line has the time at which its last rollout was scored, not that of the command", async () => {
  // Store times of 2023; the second group is the last to be complete.
  const scored = [1_700_000_060_000, 1_700_000_100_000];
  const timed = groups.map((group, i) => ({ ...group, expiresAt: expiryOf(scored[i] ?? 0) }));
  await recordRun(folder, { groups: timed });
  const times = async () => {
    await printed("track", config.run, "--to", "tensorboard");
    const lines = parsedLines(readFileSync(join("runs", config.run, "metrics.jsonl"), "utf8"));
    return lines.filter(({ source }) => source === "step").map(({ step, time }) => [step, time]);
  };
  expect(await times()).toEqual([[1, 1_700_000_100_000]]);
  expect(await times()).toEqual([[1, 1_700_000_100_000]]);
});

test("once metrics.jsonl is deleted, the metrics are sent again", async () => {
  let requests = 0;
  onTestFinished(() => void vi.unstubAllEnvs());
  vi.stubEnv(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    await serveHttp((request, response) => {
      requests += 1;
      request.resume().on("end", () => response.writeHead(200, { "content-type": "application/x-protobuf" }).end());
    }),
  );
  const track = () => printed("track", config.run, "--to", "otlp");
  await recordRun(folder);
  for (let time = 0; time < 2; time++) await track();
  expect(requests).toBe(1);
  rmSync(join("runs", config.run, "metrics.jsonl"));
  await track();
  expect(requests).toBe(2);
});

test("the metrics of a deleted run in a store are not taken for those of a new run of the same name", async () => {
  const { close, table, ...store } = await openLocalStore();
  onTestFinished(close);
  const run = RUN;
  await fillFinishedRun({ table, ...store });
  await store.objects.commit(objectKeys.config(run), new TextEncoder().encode(JSON.stringify(config)));
  const removeFolder = () => rmSync(join("runs", run), { recursive: true, force: true });
  removeFolder();
  onTestFinished(removeFolder);
  const track = () => printed("track", run, "--to", "tensorboard");
  const sent = await track();
  expect(await track()).toBe(sent);
  await table.update({ key: tableKeys.run(run), set: [[["startedAt"], Date.now() + 1]], when: [] });
  const path = join(folder, "runs", run, "metrics.jsonl");
  await expect(track()).rejects.toMatchObject({
    code: "config-invalid",
    message: `${path} has steps from before run '${run}' started, so they belong to an earlier run of that name: remove this file, and repeat the command to recreate it`,
  });
  rmSync(path);
  expect(await track()).toBe(sent);
});

const SENDER = `
  const { lockDirectory } = await import(process.argv[1]);
  await lockDirectory(process.argv[2]);
  setInterval(() => console.log("locked"), 100);
`;

test("the command is refused while another process sends the run's metrics, and works once that process is killed", async () => {
  await recordRun(folder);
  const lock = runFolder(config.run).trackersLock;
  const built = builtModule("adapters/local-cloud/lock").href;
  const sender = spawn(process.execPath, ["--input-type=module", "--eval", SENDER, built, lock], { stdio: "pipe" });
  onTestFinished(() => void sender.kill("SIGKILL"));
  await once(sender.stdout, "data");
  const track = () => printed("track", config.run, "--to", "tensorboard");
  await expect(track()).rejects.toMatchObject({
    code: "tracker-unavailable",
    message: `${lock} is in use by a process (pid ${sender.pid}): wait for it or stop it, or leave the metrics to it`,
  });
  sender.kill("SIGKILL");
  await once(sender, "exit");
  expect(await track()).toBe("metrics in tensorboard: 1 line\n");
});

test("while the command sends a run's metrics, that run does not train, unless it has no trackers", async () => {
  const tracked = { ...config, run: "tracked", track: ["tensorboard" as const] };
  const run = createRunFolder(tracked);
  const unlock = await lockTrackers(run, "");
  const begun = new Error("it begins");
  const questions = () => Promise.reject(begun);
  const bases = questions;
  await expect(trainLocally({ config: tracked, folder: run, bases, questions })).rejects.toMatchObject({
    code: "tracker-unavailable",
    message: expect.stringContaining(": wait for it or stop it, or resume the run later"),
  });
  await expect(trainLocally({ config: { ...tracked, track: [] }, folder: run, bases, questions })).rejects.toBe(begun);
  await unlock();
  await expect(trainLocally({ config: tracked, folder: run, bases, questions })).rejects.toBe(begun);
});
