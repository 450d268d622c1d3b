/**
 * @file One trial: two runs on one cloud, every part of the program in its own process, a proxy on every channel, and a schedule of what goes
 * wrong.
 *
 *     store <── proxies <── functions, workers ──> proxies ──> world, and each other
 *       └── events, ticks ──> proxy ──> functions          workers <── proxies ──> app
 *
 * It ends when every worker has left its finished run, when a process is crash-looping (every worker of a halted run is), or at its deadline. It fails
 * if its processes do not start.
 */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { builtModule } from "../../built-module.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { RunRecord } from "../../core/contracts/records.ts";
import { closeProxies, freePort } from "../fakes/proxies.ts";
import { recordsOf, TOKEN } from "../fixtures/relay/world.ts";
import { type Built, buildProcesses } from "../kill/build.ts";
import { readBills } from "./bills.ts";
import { configOf } from "./configs.ts";
import type { Entry, Trial } from "./history.ts";
import { LIMITS } from "./limits.ts";
import { callerOf, KEY_VARIABLE } from "./priced-model.ts";
import type { AppArguments } from "./processes/app.ts";
import type { FunctionsArguments } from "./processes/functions.ts";
import { foreignTrajectories } from "./provenance.ts";
import { type FaultProxy, openProxy } from "./proxy.ts";
import { APP_RUN, type Channel, RUNS, type Schedule } from "./schedule.ts";
import { StarvationMeter } from "./starvation.ts";
import { endpointsOf, openEmbeddedCloud, openOtherStore, type StorePorts, type TrialStore } from "./stores.ts";
import { Supervisor } from "./supervisor.ts";
import { openWorld, type World } from "./world.ts";

const POLL_MS = 100;
/** Shared by the app and the workers that call it. */
const SECRET = "the secret of a trial's app";

/** The modules of a trial's processes, bundled once for all trials. */
export async function buildTrials(): Promise<Built> {
  const built = await buildProcesses({
    "chaos/app": "test/chaos/processes/app.ts",
    "chaos/cloud": "test/chaos/processes/cloud.ts",
    "chaos/functions": "test/chaos/processes/functions.ts",
    "chaos/recipe/tools": "test/chaos/recipe/tools.ts",
    "chaos/recipe/rewards": "test/chaos/recipe/rewards.ts",
  });
  // The processes that read documents are started from `adapters/` beside the bundle: see built-module.ts.
  symlinkSync(fileURLToPath(builtModule("adapters")).replace(/\.js$/, ""), join(dirname(built.worker), "adapters"));
  return built;
}

/** @param otherStore a store that is already running, used instead of the embedded cloud. */
export async function runTrial(
  built: Built,
  schedule: Schedule,
  deadlineSeconds: number,
  otherStore?: StorePorts,
): Promise<Trial> {
  const stage = await openStage(built, schedule, otherStore);
  try {
    await startProcesses(stage, deadlineSeconds);
    const endedInTime = await untilOver(stage, deadlineSeconds);
    await Promise.all([...stage.proxies].map((proxy) => proxy.close()));
    return await resultOf(stage, endedInTime);
  } finally {
    stage.starvation.stop();
    await stage.supervisor.killAll();
    stage.world.close();
    await stage.store.close();
    closeProxies();
    rmSync(stage.directory, { recursive: true, force: true });
  }
}

interface Stage {
  readonly built: Built;
  readonly schedule: Schedule;
  readonly directory: string;
  readonly world: World;
  readonly store: TrialStore;
  readonly functionsPort: number;
  readonly appPort: number;
  readonly configs: RunConfig[];
  readonly supervisor: Supervisor;
  readonly proxies: Set<FaultProxy>;
  readonly history: Entry[];
  readonly log: string[];
  readonly starvation: StarvationMeter;
  readonly startedAt: number;
  /** How far the store's clock is ahead. */
  readonly clock: { aheadMs: number };
}

async function openStage(built: Built, schedule: Schedule, otherStore: StorePorts | undefined): Promise<Stage> {
  const log: string[] = [];
  const world = await openWorld(schedule.page);
  const directory = mkdtempSync(join(tmpdir(), "mgrpo-chaos-"));
  const startedAt = performance.now();
  const clock = { aheadMs: 0 };
  const now = () => performance.now() - startedAt;
  const supervisor = new Supervisor({
    deaths: schedule.deaths,
    sleeps: schedule.sleeps,
    onSleep(minutes) {
      clock.aheadMs += minutes * 60_000;
      writeFileSync(clockFile(directory), String(clock.aheadMs));
    },
    now,
    log: (line) => log.push(line),
  });
  // The proxies are in this process.
  const pids = () => new Map([...supervisor.pids(), ["proxies", process.pid]]);
  return {
    built,
    schedule,
    directory,
    world,
    store: await (otherStore ? openOtherStore(otherStore) : openEmbeddedCloud(built, supervisor, directory)),
    functionsPort: await freePort(),
    appPort: await freePort(),
    configs: [],
    supervisor,
    proxies: new Set(),
    history: [],
    log,
    starvation: new StarvationMeter(pids, now),
    startedAt,
    clock,
  };
}

const clockFile = (directory: string) => join(directory, "ahead");

async function startProcesses(stage: Stage, deadlineSeconds: number): Promise<void> {
  const { built, store, functionsPort, supervisor, world, schedule } = stage;
  const judge = await proxyFor(stage, "functions", "world", () => world.port);
  const app = await startApp(stage);
  const isPriced = schedule.searcher === "priced";
  const api = isPriced ? await proxyFor(stage, "api", "api", () => world.port) : undefined;
  const recipe = dirname(built.path("chaos/recipe/tools"));
  const configs = RUNS.map((run) =>
    configOf(run, { recipe, steps: schedule.steps, judge, app, api, staleness: schedule.staleness }),
  );
  stage.configs.push(...configs);
  await store.start(await proxyFor(stage, "functions", "events", () => functionsPort));
  await untilReachable(stage, store.ports.dynamo, deadlineSeconds);
  const functions: FunctionsArguments = { port: functionsPort, configs };
  const environment = await environmentOf(stage, "functions");
  supervisor.start({
    name: "functions",
    command: [built.path("chaos/functions"), JSON.stringify(functions)],
    environment,
  });
  await untilReachable(stage, functionsPort, deadlineSeconds);
  await untilReachable(stage, stage.appPort, deadlineSeconds);
  for (const run of RUNS) {
    for (const agent of ["main", "searcher"]) {
      const isFrozen = isPriced && run !== APP_RUN && agent === "searcher";
      const roles = isFrozen ? "rollout" : "rollout,train";
      await startWorker(stage, run, `${agent}-${run}`, ["--agent", agent, "--roles", roles]);
    }
    await startWorker(stage, run, `eval-${run}`, ["--agent", "*", "--roles", "eval"]);
  }
  stage.log.push(`clocks: ${JSON.stringify(schedule.clocks)}`);
}

/** The port of the proxy in front of the app. */
async function startApp(stage: Stage): Promise<number> {
  const { built, appPort: port, supervisor, directory, schedule } = stage;
  const clock = { file: clockFile(directory), minutesOff: schedule.clocks["app"] ?? 0 };
  writeFileSync(clock.file, "0");
  const app: AppArguments = { port, secret: SECRET, clock };
  supervisor.start({ name: "app", command: [built.path("chaos/app"), JSON.stringify(app)], environment: {} });
  return proxyFor(stage, "app", "app", () => port);
}

async function startWorker(stage: Stage, run: string, name: string, role: readonly string[]): Promise<void> {
  const port = await freePort();
  const isGateway = run === APP_RUN && !name.startsWith("searcher");
  const url = `http://127.0.0.1:${await proxyFor(stage, name, isGateway ? "gateway" : "calls", () => port)}`;
  const address = ["--port", String(port), "--url", url];
  stage.supervisor.start({
    name,
    command: [stage.built.worker, "--run", run, ...role, ...address],
    environment: await environmentOf(stage, name),
  });
}

async function environmentOf(stage: Stage, name: string): Promise<Record<string, string>> {
  const { store, world, schedule } = stage;
  const minutes = schedule.clocks[name] ?? 0;
  const clock = new URL("../fixtures/clock-off.mjs", import.meta.url).href;
  return {
    ...endpointsOf({
      dynamo: await proxyFor(stage, name, "dynamo", () => store.ports.dynamo),
      s3: await proxyFor(stage, name, "s3", () => store.ports.s3),
    }),
    ...store.environment,
    MGRPO_WORKER_TOKEN: TOKEN,
    MGRPO_RUNNER_SECRET: SECRET,
    MGRPO_RELEASE: "bundled",
    [KEY_VARIABLE]: name,
    MGRPO_CHAOS_WORLD: `http://127.0.0.1:${await proxyFor(stage, name, "world", () => world.port)}`,
    ...(minutes !== 0 && { NODE_OPTIONS: `--import=${clock}`, CLOCK_OFF_MINUTES: String(minutes) }),
  };
}

async function proxyFor(stage: Stage, process: string, channel: Channel, target: () => number): Promise<number> {
  const { schedule, supervisor, history, proxies, startedAt, clock } = stage;
  const faults = schedule.faults.filter((fault) => fault.process === process && fault.channel === channel);
  const callers: Partial<Record<Channel, string[]>> = { events: [], calls: [], app: [], gateway: ["app"] };
  const isStore = channel === "dynamo" || channel === "s3";
  const proxy = await openProxy({
    process,
    channel,
    target,
    faults: new Map(faults.map((fault) => [fault.request, fault])),
    now: () => performance.now() - startedAt,
    aheadMs: () => (isStore ? clock.aheadMs : 0),
    ...(isStore && stage.store.turnBack && { turnBack: stage.store.turnBack }),
    record: (entry) => history.push(entry),
    ...(channel === "api" && { callerOf }),
    onRequest(caller) {
      const mortal = [...(callers[channel] ?? [caller]), ...(isStore ? ["cloud"] : [])];
      const ends = mortal.map((name) => supervisor.onRequest(name));
      return () => {
        for (const end of ends) end();
      };
    },
  });
  proxies.add(proxy);
  return proxy.port;
}

/** Throws at the deadline, or if a process is crash-looping: it would never be reachable. */
export async function untilReachable(
  { supervisor, log }: Pick<Stage, "supervisor" | "log">,
  port: number,
  deadlineSeconds: number,
): Promise<void> {
  const signal = AbortSignal.timeout(deadlineSeconds * 1000);
  while (!signal.aborted) {
    const isThere = await fetch(`http://127.0.0.1:${port}/`, { signal }).then(
      () => true,
      () => false,
    );
    if (isThere) return;
    if (supervisor.crashLooping !== undefined)
      throw new Error(`${supervisor.crashLooping} is crash-looping:\n${log.join("\n")}`);
    await pause(POLL_MS);
  }
  throw new Error(`port ${port} does not answer after ${deadlineSeconds} s:\n${log.join("\n")}`);
}

/** False at the deadline, or if a process is crash-looping. */
async function untilOver({ supervisor }: Stage, deadlineSeconds: number): Promise<boolean> {
  const workers = RUNS.flatMap((run) => [`main-${run}`, `searcher-${run}`, `eval-${run}`]);
  for (const since = performance.now(); performance.now() - since < deadlineSeconds * 1000; ) {
    if (workers.every((name) => supervisor.isDone(name))) return true;
    if (supervisor.crashLooping !== undefined) return false;
    await pause(POLL_MS);
  }
  return false;
}

async function resultOf(stage: Stage, endedInTime: boolean): Promise<Trial> {
  const { configs, history, log, supervisor, startedAt } = stage;
  const { ports, environment } = stage.store;
  const { MGRPO_TABLE: table = "", MGRPO_BUCKET: bucket = "" } = environment;
  const store = openAwsStore({ table, bucket }, { ...environment, ...endpointsOf(ports) });
  try {
    const runs: Trial["runs"] = await Promise.all(
      configs.map(async (config) => ({
        run: config.run,
        status: RunRecord.parse(await store.table.get(tableKeys.run(config.run))).status,
        records: await recordsOf(store, config),
        ...(await readBills(store.table, config.run)),
        foreignTrajectories: await foreignTrajectories(store, config),
      })),
    );
    const seconds = (performance.now() - startedAt) / 1000;
    const { strikes, ends } = supervisor;
    const [starts, starvation] = [supervisor.starts(), stage.starvation.measured()];
    return { endedInTime, seconds, runs, history, log, strikes, limits: LIMITS, starts, ends, starvation };
  } finally {
    store.close();
  }
}
