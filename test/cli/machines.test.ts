/**
 * @file Several machines and no shared files: `mgrpo cloud serve` in one process, a run by `mgrpo launch`, workers in other processes,
 * each in a folder of its own, with nothing but the printed environment.
 */
import type { ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, afterEach, expect, test } from "vitest";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { followRun, type RunEvent, readManifest, readRun } from "../../cli/local/follow.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { mgrpo, startMgrpo, trainRelay, workplace } from "./command-line.ts";
import { printed, told } from "./printed.ts";

const TIMEOUT = 120_000;
const folders: string[] = [];
const children: ChildProcess[] = [];
const environment = { ...process.env };
const home = process.cwd();
afterEach(() => {
  process.chdir(home);
  for (const child of children.splice(0)) child.kill("SIGKILL");
  for (const name of Object.keys(process.env)) if (!(name in environment)) delete process.env[name];
});
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Another machine's folder. */
function emptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-machine-"));
  folders.push(folder);
  return folder;
}

function start(cwd: string, ...args: string[]) {
  const child = startMgrpo(cwd, ...args);
  children.push(child);
  return { child, ended: once(child, "exit") };
}

async function firstLine({ stdout }: ChildProcess): Promise<Record<string, string>> {
  if (!stdout) throw new Error("no output");
  for await (const line of createInterface({ input: stdout })) return JSON.parse(line);
  throw new Error("ended without a line");
}

const launchRelay = (run: string) => ["launch", ...trainRelay(run, "--steps", "2").slice(1)];

test("a run trains to its end on cloud serve, launch and workers", { timeout: TIMEOUT }, async () => {
  const [cloudAt, here] = [emptyFolder(), workplace()];
  folders.push(here);
  const cloud = start(cloudAt, "cloud", "serve", "--port", "0");
  const printedEnvironment = await firstLine(cloud.child);
  expect(Object.keys(printedEnvironment).sort()).toEqual([
    "AWS_ACCESS_KEY_ID",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "MGRPO_BUCKET",
    "MGRPO_TABLE",
    "MGRPO_WORKER_TOKEN",
  ]);
  Object.assign(process.env, printedEnvironment);

  const { stdout, ...end } = await mgrpo(here, ...launchRelay("far"));
  expect(end).toEqual({ code: 0, stderr: "" });
  const worker = expect.stringContaining("worker --run far --agent");
  expect(JSON.parse(stdout)).toMatchObject({ kind: "launched", run: "far", workers: [worker, worker, worker] });

  const agents = [["main"], ["searcher"], ["*", "--roles", "eval"]];
  const machines = agents.map(() => emptyFolder());
  const workers = agents.map((agent, i) =>
    start(machines[i] ?? "", "worker", "--run", "far", "--agent", ...agent).ended.then(([code]) => code),
  );
  // Each ends by itself when the run has.
  expect(await Promise.all(workers)).toEqual([0, 0, 0]);

  const store = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
  expect(await readRun(store, "far")).toMatchObject({ status: "finished", step: 2 });
  const weights = await Promise.all([0, 1, 2].map((version) => readManifest(store, "far", "searcher", version)));
  expect(new Set(weights.map(({ files }) => files["model.safetensors"]?.sha256)).size).toBe(3);
  const config = parseJson(RunConfig, (await store.objects.get(objectKeys.config("far"))) ?? "", "config");
  const events: RunEvent["kind"][] = [];
  const options = { from: 0, pollSeconds: 0.1, signal: AbortSignal.timeout(10_000) };
  for await (const { kind } of followRun(store, config, options)) events.push(kind);
  expect(events).toEqual(expect.arrayContaining(["step", "step", "evaluation", "ended"]));
  store.close();

  process.chdir(here);
  await expect(printed(...launchRelay("far"), "--set", "rolloutsPerQuestion=3")).rejects.toThrow(
    /run 'far' is in the store with another config: rolloutsPerQuestion: 2 there, 3 asked for/,
  );
  // Seen from a folder that has no runs of its own.
  expect(await told("runs")).toMatchObject([{ run: "far", state: "finished", step: 2 }]);
  const shown = (await told("show", "far")).map(({ kind }) => kind);
  expect(shown.filter((kind) => kind === "step")).toHaveLength(2);
  expect(shown).toContain("evaluation");
  expect(await printed("show", "far", "1/0")).toContain("advantage");

  // The weights come home.
  const [, searcher] = await told("export", "far");
  const trained = weights.at(-1)?.files["model.safetensors"]?.sha256;
  expect(searcher).toMatchObject({ agent: "searcher", version: 2, sha256: trained });
  const bytes = readFileSync(join(here, String(searcher?.["checkpoint"]), "model.safetensors"));
  expect(createHash("sha256").update(bytes).digest("hex")).toBe(trained);

  for (const machine of machines) expect(readdirSync(machine)).toEqual([]);
  expect(readdirSync(cloudAt)).toEqual(["mgrpo-cloud"]);
  cloud.child.kill("SIGTERM");
  expect(await cloud.ended).toEqual([0, null]);

  // Served again from the same folder: the same keys, the same runs.
  const again = start(cloudAt, "cloud", "serve", "--port", "0");
  const after = await firstLine(again.child);
  for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "MGRPO_WORKER_TOKEN"])
    expect(after[name]).toBe(printedEnvironment[name]);
  Object.assign(process.env, after);
  expect(await told("runs")).toMatchObject([{ run: "far", state: "finished", step: 2 }]);
  again.child.kill("SIGINT");
  expect(await again.ended).toEqual([0, null]);
});
