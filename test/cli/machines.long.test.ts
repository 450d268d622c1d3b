/**
 * @file Several machines without shared files: `mgrpo cloud serve` or `mgrpo dispatch` in one process, a run from
 * `mgrpo launch`, and workers in other processes, each in a folder of its own and with environment variables alone. Also which stored
 * configs `mgrpo launch` accepts, and how a worker reports a certificate that it does not trust.
 */
import type { ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, afterEach, expect, test } from "vitest";
import { type AwsStore, openAwsStore } from "../../adapters/aws/store.ts";
import { followRun, type RunEvent } from "../../cli/local/follow.ts";
import { readManifest, readRun } from "../../cli/local/read-records.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { canonicalJson, parseJson } from "../../core/contracts/parse.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { CERTIFICATE, closeProxies, freePort, startProxy } from "../fakes/proxies.ts";
import { mgrpo, projectFolder, startMgrpoWith, trainRelay } from "./command-line.ts";
import { printed, printedJson } from "./printed.ts";

const TIMEOUT = 480_000;
const folders: string[] = [];
const children: ChildProcess[] = [];
const environment = { ...process.env };
const home = process.cwd();
afterEach(() => {
  process.chdir(home);
  for (const child of children.splice(0)) child.kill("SIGKILL");
  closeProxies();
  for (const name of Object.keys(process.env)) if (!(name in environment)) delete process.env[name];
});
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

const removeAfterward = (folder: string): string => {
  folders.push(folder);
  return folder;
};

/** A new folder, which stands for another machine. */
const emptyFolder = () => removeAfterward(mkdtempSync(join(tmpdir(), "mgrpo-machine-")));

/** A store without functions or events, and a folder to launch a run from. */
async function storeAndProject() {
  const store = await openLocalStore();
  process.env["MGRPO_WORKER_TOKEN"] = "sixteen characters";
  removeAfterward(store.directory);
  return { store, here: removeAfterward(projectFolder()) };
}

function start(cwd: string, ...args: string[]) {
  return startWith({}, cwd, ...args);
}

function startWith(more: NodeJS.ProcessEnv, cwd: string, ...args: string[]) {
  const child = startMgrpoWith(more, cwd, ...args);
  children.push(child);
  return { child, ended: once(child, "exit") };
}

/** All lines that a process prints until it ends, parsed as JSON. */
async function outputOf({ stdout }: ChildProcess): Promise<unknown[]> {
  const lines: unknown[] = [];
  if (stdout) for await (const line of createInterface({ input: stdout })) lines.push(JSON.parse(line));
  return lines;
}

async function firstLine({ stdout }: ChildProcess): Promise<Record<string, string>> {
  if (!stdout) throw new Error("no output");
  for await (const line of createInterface({ input: stdout })) return JSON.parse(line);
  throw new Error("ended without a line");
}

/** The environment of a process whose clock is wrong. */
const clockOff = (minutes: number) => ({
  NODE_OPTIONS: `--import=${new URL("../fixtures/clock-off.mjs", import.meta.url).href}`,
  CLOCK_OFF_MINUTES: String(minutes),
});

const weightsOf = async (store: AwsStore, agent: string) => {
  const manifests = await Promise.all([0, 1, 2].map((version) => readManifest(store, "far", agent, version)));
  return manifests.map(({ files }) => files["model.safetensors"]?.sha256);
};
/** The hashes of the searcher's weights in the first test: the same run on other processes must reach them. */
let expected: readonly (string | undefined)[] = [];

const launchRelay = (run: string) => ["launch", ...trainRelay(run, "--steps", "2").slice(1)];

/** Serves a cloud from a folder, and takes over the environment that it prints. */
async function serve(cwd: string) {
  const cloud = start(cwd, "cloud", "serve", "--port", "0");
  const printedEnvironment = await firstLine(cloud.child);
  Object.assign(process.env, printedEnvironment);
  const stop = async (signal: NodeJS.Signals) => {
    cloud.child.kill(signal);
    expect(await cloud.ended).toEqual([0, null]);
  };
  return { printedEnvironment, stop };
}

/** One worker per agent and one that evaluates, each in a folder of its own; resolves with the folders when all have ended. */
async function runWorkers(): Promise<string[]> {
  const agents = [["main"], ["searcher"], ["*", "--roles", "eval"]];
  const machines = agents.map(() => emptyFolder());
  const workers = agents.map((agent, i) =>
    start(machines[i] ?? "", "worker", "--run", "far", "--agent", ...agent).ended.then(([code]) => code),
  );
  expect(await Promise.all(workers)).toEqual([0, 0, 0]);
  return machines;
}

/** The kinds of event in the records of the finished run. */
async function eventKinds(store: AwsStore): Promise<RunEvent["kind"][]> {
  const config = parseJson(RunConfig, (await store.objects.get(objectKeys.config("far"))) ?? "", "config");
  const kinds: RunEvent["kind"][] = [];
  const options = { from: 0, pollSeconds: 0.1, signal: AbortSignal.timeout(120_000) };
  for await (const { kind } of followRun(store, config, options)) kinds.push(kind);
  return kinds;
}

/** `runs`, `show` and `export` in a folder that has no runs of its own. */
async function inspectFromElsewhere(folder: string) {
  process.chdir(folder);
  expect(await printedJson("runs")).toMatchObject([{ run: "far", state: "finished", step: 2 }]);
  const shown = (await printedJson("runs", "show", "far")).map(({ kind }) => kind);
  expect(shown.filter((kind) => kind === "step")).toHaveLength(2);
  expect(shown).toContain("evaluation");
  expect(await printed("show", "far", "1/0")).toContain("advantage");
  const [, searcher] = await printedJson("export", "far");
  const trained = expected.at(-1);
  expect(searcher).toMatchObject({ agent: "searcher", version: 2, sha256: trained });
  const bytes = readFileSync(join(folder, String(searcher?.["checkpoint"]), "model.safetensors"));
  expect(createHash("sha256").update(bytes).digest("hex")).toBe(trained);
}

test("a run trains to its end with cloud serve, launch and workers", { timeout: TIMEOUT }, async () => {
  const [cloudAt, here] = [emptyFolder(), removeAfterward(projectFolder())];
  const first = await serve(cloudAt);
  expect(Object.keys(first.printedEnvironment).sort()).toEqual([
    "AWS_ACCESS_KEY_ID",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "MGRPO_BUCKET",
    "MGRPO_TABLE",
    "MGRPO_WORKER_TOKEN",
  ]);
  const { port } = new URL(first.printedEnvironment["AWS_ENDPOINT_URL_S3"] ?? "");
  expect(await mgrpo(emptyFolder(), "cloud", "serve", "--port", "0", "--s3-port", port)).toEqual({
    code: 1,
    stdout: "",
    stderr: expect.stringContaining(`port ${port} of 127.0.0.1 is in use: stop what listens there`),
  });

  const { stdout, ...end } = await mgrpo(here, ...launchRelay("far"));
  expect(end).toEqual({ code: 0, stderr: "" });
  const worker = expect.stringContaining("worker --run far --agent");
  expect(JSON.parse(stdout)).toMatchObject({ kind: "launched", run: "far", workers: [worker, worker, worker] });
  const machines = await runWorkers();

  const store = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
  expect(await readRun(store, "far")).toMatchObject({ status: "finished", step: 2 });
  expected = await weightsOf(store, "searcher");
  expect(new Set(expected).size).toBe(3);
  expect(await eventKinds(store)).toEqual(expect.arrayContaining(["step", "step", "evaluation", "ended"]));
  store.close();
  await inspectFromElsewhere(here);
  await expect(printed(...launchRelay("far"), "--set", "rolloutsPerQuestion=3")).rejects.toThrow(
    /run 'far' is in the store with another config: rolloutsPerQuestion: 2 \(stored\), 3 \(requested\)/,
  );
  for (const machine of machines) expect(readdirSync(machine)).toEqual([]);
  expect(readdirSync(cloudAt)).toEqual(["mgrpo-cloud"]);
  await first.stop("SIGTERM");

  // Served again from the same folder: the same keys, the same runs.
  const second = await serve(cloudAt);
  for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "MGRPO_WORKER_TOKEN"])
    expect(second.printedEnvironment[name]).toBe(first.printedEnvironment[name]);
  expect(await printedJson("runs")).toMatchObject([{ run: "far", state: "finished", step: 2 }]);
  await second.stop("SIGINT");
});

test("a run has the same weights if mgrpo dispatch runs the functions, a worker is called over TLS, and clocks are off", {
  timeout: TIMEOUT,
}, async () => {
  const { store, here } = await storeAndProject();
  // The damaged records of another run must not delay this one.
  await store.table.insert(tableKeys.listed("damaged"), { run: "damaged" });
  await store.table.insert(tableKeys.run("damaged"), { run: "damaged" });
  const machines = [0, 1, 2, 3].map(() => emptyFolder());
  const [functionsAt = "", mainAt = "", searcherAt = "", evaluatorAt = ""] = machines;
  const dispatch = start(functionsAt, "dispatch", "--every", "0.05");
  const lines = outputOf(dispatch.child);
  expect((await mgrpo(here, ...launchRelay("far"))).code).toBe(0);

  const port = await freePort();
  const methods: string[] = [];
  const proxy = await startProxy(`http://127.0.0.1:${port}`, {
    tls: true,
    path: "/searcher",
    change({ method, body }) {
      methods.push(method);
      return body;
    },
  });
  const trust = { ...clockOff(-10), NODE_EXTRA_CA_CERTS: CERTIFICATE };
  const worker = ["worker", "--run", "far", "--agent"];
  const workers = [
    startWith(trust, mainAt, ...worker, "main"),
    startWith(clockOff(10), searcherAt, ...worker, "searcher", "--port", String(port), "--url", proxy),
    start(evaluatorAt, ...worker, "*", "--roles", "eval"),
  ];
  expect(await Promise.all(workers.map(({ ended }) => ended))).toEqual(workers.map(() => [0, null]));
  expect(await readRun(store, "far")).toMatchObject({ status: "finished", step: 2 });
  expect(await weightsOf(store, "searcher")).toEqual(expected);
  expect(methods).toContain("PUT");
  for (const machine of machines) expect(readdirSync(machine)).toEqual([]);

  // From a folder without runs: the damaged run is listed with its state.
  process.chdir(here);
  expect(await printedJson("runs")).toMatchObject([
    { run: "damaged", state: "damaged" },
    { run: "far", state: "finished" },
  ]);
  dispatch.child.kill("SIGTERM");
  expect(await dispatch.ended).toEqual([0, null]);
  const message = expect.stringMatching(/^RUN 'damaged': /);
  expect(await lines).toEqual([
    { kind: "dispatching", table: "mgrpo", bucket: "mgrpo", everySeconds: 0.05 },
    { kind: "failed", code: "record-damaged", message },
  ]);
  await store.close();
});

test("a setting that nothing reads is refused when a run is launched; a run that is stored with one can be launched again", async () => {
  const { store, here } = await storeAndProject();
  process.chdir(here);
  const withUnread = [...launchRelay("old"), "--set", "algorithm.constantTokens=100"];
  await expect(printed(...withUnread)).rejects.toThrow(/^algorithm\.constantTokens: does nothing under aggregation/);
  await printed(...launchRelay("old"));
  const key = objectKeys.config("old");
  const config = parseJson(RunConfig, (await store.objects.get(key)) ?? "", "config");
  const changed = { ...config, algorithm: { ...config.algorithm, constantTokens: 100 } };
  await store.objects.delete([key]);
  await store.objects.commit(key, new TextEncoder().encode(canonicalJson(changed)));
  expect(await printedJson(...withUnread)).toMatchObject([{ kind: "launched", run: "old" }]);
  await store.close();
});

test("a run whose config an older release wrote, without a setting, can be launched again: the setting has its default", async () => {
  const { store, here } = await storeAndProject();
  process.chdir(here);
  await printed(...launchRelay("old"));
  const key = objectKeys.config("old");
  const { staleness, ...older } = parseJson(RunConfig, (await store.objects.get(key)) ?? "", "config");
  expect(staleness).toBe(0);
  await store.objects.delete([key]);
  await store.objects.commit(key, new TextEncoder().encode(canonicalJson(older)));
  expect(await printedJson(...launchRelay("old"))).toMatchObject([{ kind: "launched", run: "old" }]);
  const other = [...launchRelay("old"), "--set", "staleness=1", "--set", "algorithm.tisCap=2"];
  await expect(printed(...other)).rejects.toThrow(/with another config: .*staleness: 0 \(stored\), 1 \(requested\)/);
  await store.close();
});

test("a worker whose certificate is not trusted is reported in one line, and no rollout of the first question is recorded as failed", {
  timeout: TIMEOUT,
}, async () => {
  const { store, here } = await storeAndProject();
  expect((await mgrpo(here, ...launchRelay("far"))).code).toBe(0);
  const port = await freePort();
  const proxy = await startProxy(`http://127.0.0.1:${port}`, { tls: true });
  const worker = ["worker", "--run", "far", "--roles", "rollout", "--agent"];
  start(emptyFolder(), ...worker, "searcher", "--port", String(port), "--url", proxy);
  const { code, stderr } = await mgrpo(emptyFolder(), ...worker, "main");
  expect(code).toBe(1);
  expect(JSON.parse(stderr.trimEnd().split("\n").at(-1) ?? "")).toMatchObject({
    level: "error",
    code: "config-invalid",
    error: expect.stringMatching(/at https:.*certificate is not trusted here .*NODE_EXTRA_CA_CERTS/),
  });
  const outcome = { run: "far", phase: "train", step: 0, group: 0 };
  for (const rollout of [0, 1]) {
    const bytes = await store.objects.get(objectKeys.outcome({ ...outcome, rollout }));
    if (bytes) expect(new TextDecoder().decode(bytes)).toContain('"status":"finished"');
  }
  await store.close();
});
