/**
 * @file A small trial within this process: one run of two steps on an embedded cloud, with the real functions, workers and store adapters,
 * and fault proxies (proxy.ts) in front of the store, the judge, the tool, the app (if one runs the rollouts) and the searcher's API (if it is
 * priced). Events and requests between workers pass no proxy. A test can break the parts that `Sabotage` lists, such as the wire, and the
 * checker must notice.
 *
 *     cloud <── proxies <── wire <── store <── functions, main, searcher        judge, tool <── proxies <── functions, searcher
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { getRequestListener } from "@hono/node-server";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { openConversationModel } from "../../adapters/llm/converse.ts";
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { endpointOf } from "../../core/contracts/language-model.ts";
import { RunRecord, type WorkerRole } from "../../core/contracts/records.ts";
import type { ChatModel } from "../../core/language-model-ports.ts";
import type { CloudHandlers, PolicyEngine, Store } from "../../core/ports.ts";
import type { OpenedTools } from "../../core/recipe.ts";
import { composeFunctions } from "../../functions/compose.ts";
import { cloudHandlers } from "../../functions/handler.ts";
import type { AppRunner } from "../../gpu-workers/gateway/app-rollout.ts";
import { rolloutHandler } from "../../gpu-workers/gateway/rollout-handler.ts";
import { httpRunner } from "../../gpu-workers/gateway/runners.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { closeProxies, freePort, type ProxySettings, startProxy } from "../fakes/proxies.ts";
import { relayApp } from "../fixtures/relay/app.ts";
import { relayEngine } from "../fixtures/relay/policy.ts";
import { appConfig, relayConfig } from "../fixtures/relay/start.ts";
import { begin, recordsOf, startWorker, TOKEN } from "../fixtures/relay/world.ts";
import { readBills } from "./bills.ts";
import { MAX_USD, withPricedSearcher } from "./configs.ts";
import type { Entry, Trial } from "./history.ts";
import type { WaitLimits } from "./limits.ts";
import { callerOf, KEY_VARIABLE } from "./priced-model.ts";
import { foreignTrajectories } from "./provenance.ts";
import { type FaultProxy, openProxy } from "./proxy.ts";
import { rewards } from "./recipe/rewards.ts";
import { tools } from "./recipe/tools.ts";
import type { Channel, Fault } from "./schedule.ts";
import { endpointsOf } from "./stores.ts";
import { openWorld, PRICES, type World } from "./world.ts";

const RUN = "a";
const WORKERS = ["main", "searcher"] as const;
export type SmallProcess = "functions" | (typeof WORKERS)[number];

/** Limits of a trial with something broken. They and the slack are short, so that a trial that breaks the law on waits is short too. */
const SMALL_LIMITS: WaitLimits = {
  lease: 1.5,
  tick: 0.25,
  rollout: 20,
  invocation: 10,
  judge: 3,
  tool: 2,
  store: 30,
  slack: 2,
};

/** Limits of a trial with nothing broken, which must keep every law however busy the machine is. */
const PATIENT_LIMITS: WaitLimits = { ...SMALL_LIMITS, lease: 15, rollout: 120, invocation: 60, judge: 20, slack: 60 };

/** What is broken. */
export interface Sabotage {
  /** The store as one process sees it. */
  readonly store?: (store: Store, process: SmallProcess) => Store;
  /** What is done to the main worker's requests to S3. */
  readonly wire?: ProxySettings["change"];
  readonly engine?: PolicyEngine;
  /** Instances of the functions that get each event. */
  readonly instances?: number;
  /** Seconds that the judge's client waits for an answer. */
  readonly judgeSeconds?: number;
  /** Faults in the functions' requests to the judge. */
  readonly faults?: readonly Pick<Fault, "kind" | "request">[];
  /** An app runs the rollouts, and each call to it hangs. Changes how the main worker calls it. */
  readonly hungApp?: (runner: AppRunner) => AppRunner;
  /** The searcher is behind an API with prices. `faults`: of requests to it. `client`: changes its client. */
  readonly priced?: {
    readonly faults?: readonly Pick<Fault, "kind" | "request">[];
    readonly client?: (model: ChatModel) => ChatModel;
  };
  /** Seconds after which a trial that has not ended is stopped. */
  readonly deadlineSeconds?: number;
  /** Whether what has happened so far breaks the law: the trial ends early. `now`: milliseconds since the trial began. */
  readonly isEnough?: (history: readonly Entry[], now: number) => boolean;
  /** Nothing of the program is broken: all that goes wrong is in `faults`. */
  readonly isIntact?: boolean;
}

interface Stage {
  readonly sabotage: Sabotage;
  readonly limits: WaitLimits;
  readonly environment: Readonly<Record<string, string>>;
  readonly ports: { readonly dynamo: number; readonly s3: number };
  readonly world: World;
  readonly proxies: FaultProxy[];
  readonly closers: (() => void)[];
  readonly history: Entry[];
  readonly log: string[];
  readonly now: () => number;
}

const EVERY_CALL_HANGS = Array.from({ length: 100 }, (_, request) => ({ kind: "hang", request }) as const);
const DEADLINE_SECONDS = 60;
/** Between two checks of what has happened so far. */
const LOOK_MS = 100;

export async function runSmallTrial(sabotage: Sabotage = { isIntact: true }): Promise<Trial> {
  const limits = sabotage.isIntact ? PATIENT_LIMITS : SMALL_LIMITS;
  const directory = mkdtempSync(join(tmpdir(), "mgrpo-small-"));
  const ports = { dynamo: await freePort(), s3: await freePort() };
  const instances: CloudHandlers[] = [];
  const cloud = await startLocalCloud({
    directory,
    ports,
    tickSeconds: SMALL_LIMITS.tick,
    verifySignatures: false,
    handlers: {
      objectCreated: async (event) => void (await Promise.all(instances.map((one) => one.objectCreated(event)))),
      tick: async () => void (await Promise.all(instances.map((one) => one.tick()))),
    },
    report: () => {},
  });
  const startedAt = performance.now();
  const world = await openWorld("farCell");
  const { environment, direct } = cloud;
  const opened = { proxies: [], closers: [], history: [], log: [], now: () => performance.now() - startedAt };
  const stage: Stage = { sabotage, limits, environment, ports, world, ...opened };
  try {
    const judge = await proxyFor(stage, "functions", "world", world.port);
    const config = configOf(stage, judge, await proxyFor(stage, "searcher", "api", world.port));
    const endedInTime = await playRun(stage, config, instances);
    await Promise.all(stage.proxies.map((proxy) => proxy.close()));
    return await resultOf(stage, config, direct, endedInTime);
  } finally {
    for (const close of stage.closers) close();
    world.close();
    closeProxies();
    await cloud.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

function configOf({ sabotage, limits }: Stage, judge: number, api: number): RunConfig {
  return (sabotage.hungApp ? appConfig : relayConfig)({
    run: RUN,
    steps: 2,
    ...(sabotage.priced && { agents: withPricedSearcher(api, limits.judge) }),
    judge: {
      model: {
        provider: "openai",
        baseUrl: `http://127.0.0.1:${judge}/v1`,
        model: "judge",
        timeoutSeconds: sabotage.judgeSeconds ?? limits.judge,
      },
      maxTokens: 64,
      usdPerMillionTokens: PRICES,
      criteria: { correct: "Compare.", expert: "Look at the work." },
    },
    retention: { last: 8 },
    liveness: { heartbeatSeconds: 0.2, leaseSeconds: limits.lease, pollSeconds: 0.02 },
    limits: {
      invocationSeconds: limits.invocation,
      rolloutSeconds: limits.rollout,
      verdictSeconds: sabotage.isIntact ? 60 : 8,
      attempts: 50,
    },
    budget: { usd: MAX_USD, usdPerWorkerHour: { "*": 0 } },
  });
}

/** False: the trial reached its deadline or `isEnough` held before all workers had ended, or a worker failed. */
async function playRun(stage: Stage, config: RunConfig, instances: CloudHandlers[]): Promise<boolean> {
  const { sabotage, log } = stage;
  const write = (line: string) => void log.push(line);
  const opened = await Promise.all(
    Array.from({ length: sabotage.instances ?? 1 }, async () => {
      const store = await storeOf(stage, "functions");
      const rewardsOf = async () => rewards({ config, environment: {} });
      return { store, functions: composeFunctions(store, { rewardsOf }) };
    }),
  );
  const [first] = opened;
  if (first) await begin(first.store, first.functions, config);
  instances.push(...opened.map(({ functions }) => cloudHandlers(functions, write)));
  const stop = new AbortController();
  const engine = sabotage.engine ?? relayEngine;
  const workers = WORKERS.map(async (agent) => {
    const store = await storeOf(stage, agent);
    const opened = await openTools(stage, config, store, agent);
    const runner = sabotage.hungApp && agent === "main" && sabotage.hungApp(await openApp(stage));
    const apiOf = (config: AgentConfig) => clientOf(sabotage, config);
    const parts = { tools: opened.tools, engineOf: () => engine, apiOf, ...(runner && { runner }) };
    const roles: readonly WorkerRole[] = sabotage.priced && agent === "searcher" ? ["rollout"] : ["rollout", "train"];
    await startWorker(store, RUN, { agent, roles }, stop.signal, createLog(write), parts).finally(opened.close);
  });
  const over = untilOver(stage, stop.signal);
  const endedInTime = await Promise.race([Promise.all(workers).then(() => true), over]).catch(
    async (error: unknown) => {
      write(String(error));
      // The trial continues: the claims of a failed worker are still held, and the other workers still run.
      return over;
    },
  );
  stop.abort();
  await Promise.allSettled(workers);
  await Promise.all(opened.map(({ functions }) => functions.stop()));
  return endedInTime;
}

function clientOf({ priced }: Sabotage, agent: AgentConfig): ChatModel {
  const environment = { [KEY_VARIABLE]: `searcher-${RUN}` };
  const client = openConversationModel(endpointOf(agent), { environment, pauseSeconds: 0.05 });
  return priced?.client?.(client) ?? client;
}

/** Resolves to false at the deadline or once `isEnough` holds. Rejects when the trial has stopped. */
async function untilOver({ sabotage, history, now }: Stage, signal: AbortSignal): Promise<false> {
  const until = now() + (sabotage.deadlineSeconds ?? (sabotage.isIntact ? 2 : 1) * DEADLINE_SECONDS) * 1000;
  while (now() < until && !sabotage.isEnough?.(history, now())) await pause(LOOK_MS, undefined, { signal });
  return false;
}

async function storeOf(stage: Stage, process: SmallProcess): Promise<Store> {
  const { sabotage, environment, ports, closers } = stage;
  const dynamo = await proxyFor(stage, process, "dynamo", ports.dynamo);
  const s3 = await proxyFor(stage, process, "s3", ports.s3);
  const endpoints = endpointsOf({ dynamo, s3 });
  if (sabotage.wire && process === "main")
    endpoints.AWS_ENDPOINT_URL_S3 = await startProxy(endpoints.AWS_ENDPOINT_URL_S3, { change: sabotage.wire });
  const { MGRPO_TABLE: table = "", MGRPO_BUCKET: bucket = "" } = environment;
  const store = openAwsStore({ table, bucket }, { ...environment, ...endpoints });
  closers.push(() => store.close());
  return sabotage.store?.(store, process) ?? store;
}

/** Starts the app. The runner calls it through a proxy. The store is on this machine, so its clock is this process's. */
async function openApp(stage: Stage): Promise<AppRunner> {
  const server = createServer(getRequestListener(rolloutHandler(relayApp, { secret: TOKEN })));
  const port = await freePort();
  server.listen(port, "127.0.0.1");
  stage.closers.push(() => server.close());
  const url = `http://127.0.0.1:${await proxyFor(stage, "main", "app", port)}/attempts`;
  return httpRunner({ url, secretVariable: "SECRET" }, { SECRET: TOKEN }, { storeTime: async () => Date.now() });
}

async function openTools(stage: Stage, config: RunConfig, store: Store, agent: SmallProcess): Promise<OpenedTools> {
  const world = await proxyFor(stage, agent, "world", stage.world.port);
  return tools({ config, store, environment: { MGRPO_CHAOS_WORLD: `http://127.0.0.1:${world}` } });
}

async function proxyFor(stage: Stage, process: SmallProcess, channel: Channel, target: number): Promise<number> {
  const { sabotage, history, now, proxies } = stage;
  const ofJudge = process === "functions" && channel === "world" ? (sabotage.faults ?? []) : [];
  const ofApi = channel === "api" ? (sabotage.priced?.faults ?? []) : ofJudge;
  const faults = channel === "app" ? EVERY_CALL_HANGS : ofApi;
  const proxy = await openProxy({
    process: process === "functions" ? process : `${process}-${RUN}`,
    channel,
    ...(channel === "api" && { callerOf }),
    target: () => target,
    faults: new Map(faults.map((fault) => [fault.request, { ...fault, process, channel, seconds: 0 }])),
    now,
    record: (entry) => history.push(entry),
    onRequest: () => () => {},
  });
  proxies.push(proxy);
  return proxy.port;
}

async function resultOf(stage: Stage, config: RunConfig, store: Store, endedInTime: boolean): Promise<Trial> {
  const { history, log, now, limits } = stage;
  const result = {
    run: RUN,
    status: RunRecord.parse(await store.table.get(tableKeys.run(RUN))).status,
    records: await recordsOf(store, config),
    ...(await readBills(store.table, RUN)),
    foreignTrajectories: await foreignTrajectories(store, config),
  };
  const seconds = now() / 1000;
  return { endedInTime, seconds, runs: [result], history, log, strikes: [], limits, starts: {}, ends: [] };
}
