/**
 * @file The parent process, as the command line runs it: local cloud, functions, supervised workers. It exits when the run ends, or when
 * standard input does. Restarted on the same directory, it resumes the run. Argument: `ParentOptions` as JSON.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { composeFunctions } from "../../functions/compose.ts";
import type { Functions } from "../../functions/functions.ts";
import { cloudHandlers } from "../../functions/handler.ts";
import { onParentGone } from "../../gpu-workers/liveness/parent.ts";
import { prepareRelay, relayConfig } from "../fixtures/relay/start.ts";
import { recordsOf, TOKEN } from "../fixtures/relay/world.ts";

export interface ParentOptions {
  readonly directory: string;
  /** Built modules: the worker's entry, and the preload that kills it. */
  readonly worker: string;
  readonly crash: string;
  readonly config: object;
  /** Worker -> when its first process is killed: `n:before` or `n:after` its write n, counted from 0. */
  readonly crashes: Readonly<Record<string, string>>;
  /** Seconds between scheduled ticks. 0: there are none. */
  readonly tickSeconds: number;
  /** How events are delivered. */
  readonly events: "once" | "dropped" | "doubled" | "late";
  /** Starts an evaluation worker too, and after a finished run exits only when all evaluations are done. */
  readonly evaluates?: boolean;
}

const WORKERS: Readonly<Record<string, readonly string[]>> = {
  main: ["--agent", "main", "--roles", "rollout,train"],
  searcher: ["--agent", "searcher", "--roles", "rollout,train"],
};
const EVALUATOR = ["--agent", "*", "--roles", "eval"];

/** For all workers together. A run that needs more has failed. */
const MAX_RESTARTS = 8;
/** Seconds until each delivery of an event. */
const DELIVERIES = { once: [0], dropped: [], doubled: [0, 0], late: [0.3] };

const {
  directory,
  worker,
  crash: preloaded,
  config: changes,
  crashes,
  tickSeconds,
  events,
  evaluates = false,
}: ParentOptions = JSON.parse(process.argv[2] ?? "");
const config = relayConfig(changes);

onParentGone(process.stdin, () => process.exit(1));
let resolveFunctions: (functions: Functions) => void = () => {};
const functions = new Promise<Functions>((resolve) => {
  resolveFunctions = resolve;
});
const log = (line: string) => process.stderr.write(`${line}\n`);
const cloud = await startLocalCloud({
  directory,
  tickSeconds,
  verifySignatures: false,
  deliveries: () => DELIVERIES[events],
  handlers: {
    objectCreated: async (event) => cloudHandlers(await functions, log).objectCreated(event),
    tick: async () => cloudHandlers(await functions, log).tick(),
  },
});
Object.assign(process.env, cloud.environment, { MGRPO_WORKER_TOKEN: TOKEN, MGRPO_RELEASE: "bundled" });
const store = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
const composedFunctions = composeFunctions(store);
resolveFunctions(composedFunctions);
await composedFunctions.startRun(await prepareRelay(store.objects, config));

const children = new Map<string, ChildProcess>();
const workers: typeof WORKERS = evaluates ? { ...WORKERS, eval: EVALUATOR } : WORKERS;
let over = false;
let restarts = 0;
function start(name: string, crash: string | undefined) {
  const preload = crash === undefined ? [] : ["--import", preloaded];
  const child = spawn(process.execPath, [...preload, worker, "--run", config.run, ...(workers[name] ?? [])], {
    env: { ...process.env, MGRPO_PARENT: "1", MGRPO_TEST_CRASH: crash },
    stdio: ["pipe", "inherit", "inherit"],
  });
  children.set(name, child);
  process.stdout.write(`${JSON.stringify({ started: name, pid: child.pid })}\n`);
  child.once("exit", () => {
    if (over) return;
    if (restarts++ < MAX_RESTARTS) return start(name, undefined);
    log(`'${name}' ended after ${MAX_RESTARTS} restarts of workers`);
    process.exit(1);
  });
}
for (const name of Object.keys(workers)) start(name, crashes[name]);

for (;;) {
  const run = await store.table.get(tableKeys.run(config.run));
  const jobs = evaluates ? await store.table.query(tableKeys.run(config.run).pk, tablePrefixes.jobs) : [];
  const isEvaluated = jobs.every(({ state }) => state === "done");
  if (run?.["status"] === "halted" || (run?.["status"] === "finished" && isEvaluated)) break;
  await new Promise((resolve) => setTimeout(resolve, 50));
}
over = true;
process.stdout.write(`${JSON.stringify({ records: await recordsOf(store, config) })}\n`);
// A worker may have exited while the records were read.
const running = [...children.values()].filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
const exits = running.map((child) => once(child, "exit"));
for (const child of running) child.kill("SIGTERM");
await Promise.all(exits);
await cloud.close();
process.exit(0);
