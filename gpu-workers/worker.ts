/**
 * @file Entry of a worker process: `worker --run R --agent NAME|* --roles rollout,train,eval`. Parses, composes, serves; SIGTERM and
 * SIGINT drain. With MGRPO_PARENT=1 it does not outlive the end of its standard input by more than two seconds.
 */
import { setPriority } from "node:os";
import { parseArgs } from "node:util";
import { z } from "zod";
import { AgentName, RunName } from "../core/contracts/names.ts";
import { parse } from "../core/contracts/parse.ts";
import { WorkerRole } from "../core/contracts/records.ts";
import { isMgrpoError } from "../core/errors.ts";
import { compose, readEnvironment } from "./compose.ts";
import { onHint, onParentGone } from "./liveness/parent.ts";
import { createLog } from "./log.ts";
import { serveWorker } from "./serve.ts";

/** What is given back after the parent is gone must be given back in this time. */
const ORPHAN_MILLISECONDS = 500;

const EVALUATION_NICENESS = 5;

/** Addresses to listen on that nobody can call. */
const EVERY_ADDRESS = ["0.0.0.0", "::"];

const Arguments = z
  .strictObject({
    run: RunName,
    agent: z.union([AgentName, z.literal("*")]),
    roles: z.array(WorkerRole).min(1),
    host: z.string().min(1),
    port: z.coerce.number().int().min(0).max(65535),
    url: z.url({ protocol: /^https?$/ }).optional(),
  })
  .refine(({ host, url }) => url !== undefined || !EVERY_ADDRESS.includes(host), {
    path: ["host"],
    message: "every address of this machine: say with --url which one the other workers reach it by",
  });

function readArguments(args: string[]): z.infer<typeof Arguments> {
  const { values } = parseArgs({
    args,
    options: {
      run: { type: "string" },
      agent: { type: "string" },
      roles: { type: "string", default: "rollout,train" },
      host: { type: "string", default: "127.0.0.1" },
      port: { type: "string", default: "0" },
      url: { type: "string" },
    },
  });
  return parse(Arguments, { ...values, roles: values.roles.split(",") }, "arguments of the worker", "config-invalid");
}

async function main(): Promise<void> {
  const { run, ...place } = readArguments(process.argv.slice(2));
  const environment = readEnvironment(process.env);
  const log = createLog((line) => process.stderr.write(line), { run, agent: place.agent });
  const stop = new AbortController();
  const drain = (signal: string) => {
    log.info("draining", { signal });
    stop.abort();
  };
  process.once("SIGTERM", drain);
  process.once("SIGINT", drain);
  if (environment.MGRPO_PARENT === "1") {
    onParentGone(process.stdin, () => {
      log.warn("the parent process is gone");
      stop.abort();
      setTimeout(() => process.exit(1), ORPHAN_MILLISECONDS);
    });
  }
  // Evaluation takes what training leaves of the machine, where niceness counts between sessions (not under Linux's autogroups).
  if (place.roles.every((role) => role === "eval")) setPriority(EVALUATION_NICENESS);
  const parts = await compose(run, environment, log);
  await serveWorker(
    parts,
    {
      ...place,
      url: place.url,
      token: environment.MGRPO_WORKER_TOKEN,
      supervised: environment.MGRPO_PARENT === "1",
      recordBusy: environment.MGRPO_BUSY === "1",
      ...(environment.MGRPO_PARENT === "1" && { onHint: (hint: () => void) => onHint(process.stdin, hint) }),
    },
    stop.signal,
  );
}

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
