/**
 * @file Entry of a worker process. `worker --run R --agent NAME --roles rollout,train` serves one run, as does `--agent '*' --roles eval`, which
 * evaluates it; `worker --fleet NAME` serves one run after another, as they need it. SIGTERM and SIGINT drain. With MGRPO_PARENT=1 the
 * process exits within two seconds of losing its parent, which it notices when its standard input closes. While it serves a run, a watchdog
 * ends it when synchronous code blocks its main thread.
 */
import { setMaxListeners } from "node:events";
import { getPriority, setPriority } from "node:os";
import { parseArgs } from "node:util";
import * as z from "zod";
import { HttpUrl, isWildcardAddress } from "../core/contracts/http-url.ts";
import { AgentName, RunName } from "../core/contracts/names.ts";
import { parse } from "../core/contracts/parse.ts";
import { WorkerRole } from "../core/contracts/records.ts";
import { isMgrpoError } from "../core/errors.ts";
import {
  type ComposedParts,
  compose,
  openStore,
  readEnvironment,
  type WorkerEnvironment,
  workerStore,
} from "./compose.ts";
import { readFleet } from "./fleet/find-run.ts";
import { serveFleet } from "./fleet/serve-fleet.ts";
import { onHint, onParentGone } from "./liveness/parent.ts";
import { maxBlockedSeconds, startWatchdog } from "./liveness/watchdog.ts";
import { createLog, type Log, stackOf } from "./log.ts";
import { release } from "./release.ts";
import { serveWorker } from "./serve.ts";
import { onStopSignal } from "./stop-signals.ts";
import type { ServeWorkerOptions } from "./worker-process.ts";

/** Time to give claims back after the parent is gone. */
const ORPHAN_MILLISECONDS = 500;

const EVALUATION_NICENESS = 5;

const DEFAULT_ROLES: WorkerRole[] = ["rollout", "train"];

const Arguments = z
  .strictObject({
    run: RunName.optional(),
    agent: z.union([AgentName, z.literal("*")]).optional(),
    roles: z.array(WorkerRole).min(1).optional(),
    fleet: AgentName.optional(),
    host: z.string().min(1),
    port: z.coerce.number().int().min(0).max(65535),
    url: HttpUrl.refine((url) => !/[?#]/.test(url), { error: "must not contain a query or a fragment" }).optional(),
  })
  .refine(({ host, url }) => url !== undefined || !isWildcardAddress(host), {
    path: ["host"],
    message: "listens on every address of this machine: pass --url with a URL at which other workers can reach it",
  })
  .transform(({ run, agent, roles, fleet, ...address }, context) => {
    if (run !== undefined && agent !== undefined && fleet === undefined)
      return { run, agent, roles: roles ?? DEFAULT_ROLES, address };
    if (fleet !== undefined && [run, agent, roles].every((one) => one === undefined)) return { fleet, address };
    context.addIssue(
      "name a run and one of its agents, with --run and --agent, or a fleet of the deployment, with --fleet and no --roles",
    );
    return z.NEVER;
  });

function readArguments(args: string[]): z.infer<typeof Arguments> {
  const { values } = parseArgs({
    args,
    options: {
      run: { type: "string" },
      agent: { type: "string" },
      roles: { type: "string" },
      fleet: { type: "string" },
      host: { type: "string", default: "127.0.0.1" },
      port: { type: "string", default: "0" },
      url: { type: "string" },
    },
  });
  const roles = values.roles === undefined ? {} : { roles: values.roles.split(",") };
  return parse(Arguments, { ...values, ...roles }, "arguments of the worker", "config-invalid");
}

async function main(): Promise<void> {
  const args = readArguments(process.argv.slice(2));
  const environment = readEnvironment(process.env);
  const who = args.run === undefined ? { fleet: args.fleet } : { run: args.run, agent: args.agent };
  const log = logOf(who);
  const stop = stopSignal(environment, log);
  const store = openStore(environment);
  const serve = (parts: ComposedParts, assignment: Assignment) => {
    if (assignment.roles.every((role) => role === "eval")) yieldToTraining();
    // Not earlier: loading a recipe's tools may block the main thread for any length of time.
    const { name, config } = parts.run;
    const endWatchdog = startWatchdog(maxBlockedSeconds(config), { ...who, run: name });
    return serveWorker(parts, serveOptions(environment, args.address, assignment), stop)
      .finally(() => parts.close())
      .finally(endWatchdog);
  };
  if (args.run !== undefined) {
    await serve(await compose(args.run, store, log), { agent: args.agent, roles: args.roles });
    return;
  }
  const fleet = await readFleet(store, args.fleet);
  const { agent, roles } = fleet;
  await serveFleet(
    {
      store: workerStore(store, log),
      fleet,
      release: release(process.env),
      log,
      compose: (run) => compose(run, store, logOf({ fleet: fleet.name, run })),
      serve: (parts, enter) => serve(parts, { agent, roles, enter }),
    },
    stop,
  );
}

/** What the worker does in its run. */
type Assignment = Pick<ServeWorkerOptions, "agent" | "roles" | "enter">;

function serveOptions(
  environment: WorkerEnvironment,
  { host, port, url }: z.infer<typeof Arguments>["address"],
  assignment: Assignment,
): ServeWorkerOptions {
  const supervised = environment.MGRPO_PARENT === "1";
  return {
    ...assignment,
    host,
    port,
    url,
    token: environment.MGRPO_WORKER_TOKEN,
    supervised,
    ...(supervised && { onHint: (hint: () => void) => onHint(process.stdin, hint) }),
  };
}

/** Aborts on SIGTERM and SIGINT, and when the parent is gone. */
function stopSignal({ MGRPO_PARENT }: WorkerEnvironment, log: Log): AbortSignal {
  const stop = new AbortController();
  onStopSignal((signal) => {
    log.info("draining", { signal });
    stop.abort();
  });
  if (MGRPO_PARENT === "1") {
    onParentGone(process.stdin, () => {
      log.warn("the parent process is gone");
      stop.abort();
      setTimeout(() => process.exit(1), ORPHAN_MILLISECONDS);
    });
  }
  return stop.signal;
}

/**
 * Lowers the priority of a worker that only evaluates, and never raises one that the user has lowered: only root may do that. Where Linux
 * groups processes by session (autogroups), it has no effect on other sessions.
 */
function yieldToTraining(): void {
  setPriority(Math.max(getPriority(), EVALUATION_NICENESS));
}

function logOf(who: Record<string, unknown>): Log {
  return createLog((line) => process.stderr.write(line), who);
}

// Every conversation of a step waits for the signal that ends it. Node.js warns of a leak at eleven listeners or more.
setMaxListeners(0);

try {
  await main();
  process.exit(0);
} catch (error) {
  const log = logOf({});
  // An expected failure takes one line; a bug shows its stack.
  if (isMgrpoError(error)) log.error("worker failed", { code: error.code, error: error.message });
  else log.error("worker failed", { error: stackOf(error) });
  // A thread that hangs in native code would block a normal exit forever.
  if (isMgrpoError(error, "deadline")) process.kill(process.pid, "SIGKILL");
  process.exit(1);
}
