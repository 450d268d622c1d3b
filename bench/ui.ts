/**
 * @file ui.*: the dashboard, requested as by a browser, with a run of 100,000 rollouts. Measures how long each view takes, on the first request
 * and on the second, and, on Linux, what share of a core the dashboard and the store use to follow the run as if it were running. The run's records
 * are made up: nothing is sampled or trained.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startLocalCloud } from "../adapters/local-cloud/cloud.ts";
import { builtModule } from "../built-module.ts";
import { RunConfig } from "../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../core/contracts/keys.ts";
import type { GroupRecord, RunRecord, StepRecord } from "../core/contracts/records.ts";
import { summarizeStep } from "../core/monitoring/step-summary.ts";
import type { Store } from "../core/ports.ts";
import { print } from "./measurement.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const RUN = "large";
const [STEPS, GROUPS, K] = [782, 16, 8];
/** Only this many of the last steps have GROUP records: the view of a step reads no other step's. */
const SCORED_STEPS = 8;
const FOLLOW_SECONDS = 20;

const config = RunConfig.parse({
  run: RUN,
  recipe: "atlas",
  steps: STEPS + 1,
  questionsPerStep: GROUPS,
  rolloutsPerQuestion: K,
  agents: { main: { model: "models/main", delegates: ["searcher"] }, searcher: { model: "models/searcher" } },
});
const questions = Array.from({ length: GROUPS }, (_, i) => ({
  id: `q${i}`,
  kind: "hop1",
  level: 1,
  prompt: `What is the capital of country ${i}?`,
  answer: "Lisbon",
  facts: null,
}));

const stepOf = (step: number): StepRecord => ({
  run: RUN,
  step,
  state: step < STEPS ? "closed" : "open",
  groups: questions.map(({ id }) => id),
  round: 0,
  policy: { main: step, searcher: step },
  trained: ["main", "searcher"],
  sampledBefore: 0,
  sampledTokens: 0,
  curriculum: { stage: 0, drawn: [0] },
});

function groupOf(step: number, group: number): GroupRecord {
  const scored = (k: number) => ({ reward: k % 2, correct: k % 2, wellFormed: true, tokens: 100, invocations: {} });
  const indices = Array.from({ length: K }, (_, k) => k);
  const advantages = indices.map((k) => (k % 2 === 0 ? -1 : 1));
  const statistics = { mean: 0.5, std: 0.5, duplicated: 0, dropped: 0 };
  return {
    run: RUN,
    step,
    group,
    questionId: `q${group}`,
    rolloutsPerQuestion: K,
    state: "finalized",
    crashes: {},
    rollouts: Object.fromEntries(indices.map((k) => [String(k), scored(k)])),
    finalized: { main: { trajectories: indices, advantages, weights: [1 / K], ...statistics } },
  };
}

async function fill({ table, objects }: Store): Promise<void> {
  const hash = "0".repeat(64);
  const run: RunRecord = {
    run: RUN,
    status: "running",
    reason: "",
    step: STEPS,
    configSha256: hash,
    questionsSha256: hash,
    startedAt: 0,
    maxHours: null,
    maxUsd: null,
  };
  await table.insert(tableKeys.run(RUN), { ...run });
  await objects.commit(
    objectKeys.questions(RUN),
    new TextEncoder().encode(JSON.stringify({ train: questions, heldOut: [] })),
  );
  for (let step = 0; step <= STEPS; step++) await table.insert(tableKeys.step(RUN, step), { ...stepOf(step) });
  for (let step = STEPS - SCORED_STEPS; step < STEPS; step++)
    for (let group = 0; group < GROUPS; group++)
      await table.insert(tableKeys.group(RUN, step, group), { ...groupOf(step, group) });
}

function writeFolder(folder: string, environment: object): void {
  const groups = questions.map((_, group) => groupOf(0, group));
  const lines = Array.from({ length: STEPS }, (_, step) =>
    JSON.stringify(summarizeStep(config, stepOf(step), groups, new Map(), 10)),
  );
  const { run, recipe, arm, seed } = config;
  const status = {
    run,
    recipe,
    arm,
    seed,
    steps: config.steps,
    step: STEPS,
    state: "running",
    reason: "",
    pid: process.pid,
    environment,
    seconds: 1,
    scoringSeconds: 0,
    writes: { requests: 0, bytes: 0, units: 0 },
    heldOut: { before: null, after: null },
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "status.json"), JSON.stringify(status), { mode: 0o600 });
  writeFileSync(join(folder, "steps.jsonl"), `${lines.join("\n")}\n`);
}

function spawnDashboard(cwd: string) {
  const command = [fileURLToPath(builtModule("cli/mgrpo")), "ui", "--port", "0"];
  return spawn(process.execPath, command, { cwd, stdio: ["ignore", "pipe", "inherit"] });
}

/** Waits for the dashboard's link and opens it. Returns a function that requests a path as a browser does, with the session's cookie. */
async function openSession(dashboard: ReturnType<typeof spawnDashboard>) {
  const exited = once(dashboard, "exit").then(([code]) => {
    throw new Error(`the dashboard exited with code ${code} before it printed its link`);
  });
  const [line] = await Promise.race([once(createInterface(dashboard.stdout), "line"), exited]);
  const { link } = JSON.parse(String(line)) as { readonly link: string };
  const { headers } = await fetch(link, { redirect: "manual" });
  const [cookie = ""] = (headers.get("set-cookie") ?? "").split(";");
  return (path: string, signal?: AbortSignal) =>
    fetch(new URL(path, link), { headers: { cookie }, ...(signal && { signal }) });
}

type Get = Awaited<ReturnType<typeof openSession>>;

/** Seconds until the whole response has arrived. */
async function timed(get: Get, path: string): Promise<number> {
  const since = performance.now();
  const response = await get(path);
  const body = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${body}`);
  return (performance.now() - since) / 1000;
}

/** CPU seconds of a process so far, by Linux's accounting in ticks of 10 ms. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** The share of a core that following the run takes: the dashboard's process, and the store in this one. */
async function followShare(get: Get, pid: number): Promise<number> {
  const stop = new AbortController();
  const stream = await get(`/api/runs/${RUN}/events`, stop.signal);
  if (!stream.ok) throw new Error(`the run's events: ${stream.status} ${await stream.text()}`);
  const reader = stream.body?.getReader();
  await reader?.read();
  const before = cpuSeconds(pid) + cpuSeconds(process.pid);
  const since = performance.now();
  await sleep(FOLLOW_SECONDS * 1000);
  const share = (cpuSeconds(pid) + cpuSeconds(process.pid) - before) / ((performance.now() - since) / 1000);
  stop.abort();
  return share;
}

const cwd = temporaryFolder("bench-ui");
const folder = join(cwd, "runs", RUN);
mkdirSync(folder, { recursive: true });
const idle = async () => {};
const cloud = await startLocalCloud({
  directory: join(folder, "cloud"),
  handlers: { objectCreated: idle, tick: idle },
  tickSeconds: 0,
  verifySignatures: false,
});
const size = { steps: STEPS, rollouts: STEPS * GROUPS * K };
try {
  await fill(cloud.direct);
  writeFolder(folder, cloud.environment);
  const dashboard = spawnDashboard(cwd);
  const exited = once(dashboard, "exit");
  try {
    const get = await openSession(dashboard);
    const views = { list: "/api/runs", run: `/api/runs/${RUN}`, step: `/api/runs/${RUN}/steps/${STEPS - 1}` };
    for (const [name, path] of Object.entries(views)) {
      print(`ui.${name}.first`, await timed(get, path), "s", size);
      print(`ui.${name}`, await timed(get, path), "s", size);
    }
    if (process.platform === "linux" && dashboard.pid !== undefined)
      print("ui.follow", await followShare(get, dashboard.pid), "cores", size);
  } finally {
    dashboard.kill();
    await exited;
  }
} finally {
  await cloud.close();
}
