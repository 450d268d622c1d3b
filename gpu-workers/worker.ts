/**
 * @file Entry of a worker process: `worker --run R --agent NAME|* --roles rollout,train,eval` serves that run, `worker --fleet NAME` one
 * run after another, as they need it. Parses, composes, serves; SIGTERM and SIGINT drain. With MGRPO_PARENT=1 it does not outlive the end
 * of its standard input by more than two seconds.
 */
import { setMaxListeners } from "node:events";
import { getPriority, setPriority } from "node:os";
import { parseArgs } from "node:util";
import * as z from "zod";
import { AgentName, RunName } from "../core/contracts/names.ts";
import { parse } from "../core/contracts/parse.ts";
import { WorkerRole } from "../core/contracts/records.ts";
import { isMgrpoError } from "../core/errors.ts";
import { type ComposedParts, compose, openStore, patient, readEnvironment } from "./compose.ts";
import { readFleet } from "./fleet/find-run.ts";
import { serveFleet } from "./fleet/serve-fleet.ts";
import { onHint, onParentGone } from "./liveness/parent.ts";
import { createLog } from "./log.ts";
import { release } from "./release.ts";
import { serveWorker, type WorkerOptions } from "./serve.ts";

/** What is given back after the parent is gone must be given back in this time. */
const ORPHAN_MILLISECONDS = 500;

const EVALUATION_NICENESS = 5;

/** Addresses to listen on that nobody can call. */
const EVERY_ADDRESS = ["0.0.0.0", "::"];

const Arguments = z
  .strictObject({
    run: RunName.optional(),
    agent: z.union([AgentName, z.literal("*")]).optional(),
    roles: z.array(WorkerRole).min(1).optional(),
    fleet: AgentName.optional(),
    host: z.string().min(1),
    port: z.coerce.number().int().min(0).max(65535),
    url: z.url({ protocol: /^https?$/ }).optional(),
  })
  .refine(({ host, url }) => url !== undefined || !EVERY_ADDRESS.includes(host), {
    path: ["host"],
    message: "every address of this machine: say with --url which one the other workers reach it by",
  })
  .transform(({ run, agent, roles = ["rollout", "train"], fleet, ...address }, context) => {
    if (run !== undefined && agent !== undefined && fleet === undefined) return { run, agent, roles, address };
    if (fleet !== undefined && run === undefined && agent === undefined) return { fleet, address };
    context.addIssue(
      "name a run and one of its agents, with --run and --agent, or a fleet of the deployment, with --fleet",
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
  const found = readArguments(process.argv.slice(2));
  const environment = readEnvironment(process.env);
  const supervised = environment.MGRPO_PARENT === "1";
  const logOf = (who: Record<string, unknown>) => createLog((line) => process.stderr.write(line), who);
  const log = logOf(found.run === undefined ? { fleet: found.fleet } : { run: found.run, agent: found.agent });
  const stop = new AbortController();
  const drain = (signal: string) => {
    log.info("draining", { signal });
    stop.abort();
  };
  process.once("SIGTERM", drain);
  process.once("SIGINT", drain);
  if (supervised) {
    onParentGone(process.stdin, () => {
      log.warn("the parent process is gone");
      stop.abort();
      setTimeout(() => process.exit(1), ORPHAN_MILLISECONDS);
    });
  }
  const store = openStore(environment);
  const common = {
    ...found.address,
    url: found.address.url,
    token: environment.MGRPO_WORKER_TOKEN,
    supervised,
    recordBusy: environment.MGRPO_BUSY === "1",
    ...(supervised && { onHint: (hint: () => void) => onHint(process.stdin, hint) }),
  };
  const serve = (parts: ComposedParts, place: Pick<WorkerOptions, "agent" | "roles" | "enter">) => {
    // Evaluation takes what training leaves of the machine, where niceness counts between sessions (not under Linux's autogroups). Nobody
    // but root may take back a niceness that the user gave.
    if (place.roles.every((role) => role === "eval")) setPriority(Math.max(getPriority(), EVALUATION_NICENESS));
    return serveWorker(parts, { ...common, ...place }, stop.signal).finally(() => parts.close());
  };
  if (found.run !== undefined) {
    await serve(await compose(found.run, store, log), { agent: found.agent, roles: found.roles });
    return;
  }
  const fleet = await readFleet(store, found.fleet);
  const { agent, roles } = fleet;
  await serveFleet(
    {
      ...{ store: patient(store, log), fleet, release: release(process.env), log },
      compose: (run) => compose(run, store, logOf({ fleet: fleet.name, run })),
      serve: (parts, enter) => serve(parts, { agent, roles, enter }),
    },
    stop.signal,
  );
}

// A signal that ends a step is waited for by every conversation in it; Node.js takes eleven for a leak and says so.
setMaxListeners(0);

try {
  await main();
  process.exit(0);
} catch (error) {
  const log = createLog((line) => process.stderr.write(line));
  // Expected failures in one line; a fault of the program with where it happened.
  if (isMgrpoError(error)) log.error("worker failed", { code: error.code, error: error.message });
  else log.error("worker failed", { error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  process.exit(1);
}
