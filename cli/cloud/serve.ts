/**
 * @file `mgrpo cloud serve`: serves the embedded cloud from a folder and runs the functions, for runs whose workers
 * are on several machines. It prints the environment that those machines need, or writes it to a file, and ends on
 * SIGINT or SIGTERM, or once the folder is gone. Restarted on the same folder, it continues with the same keys. Request signatures are verified;
 * nothing is encrypted.
 */
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { tableKeys } from "../../core/contracts/keys.ts";
import { RunRecord } from "../../core/contracts/records.ts";
import { errorText, MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import { listedRuns } from "../../core/training/run-list.ts";
import { type EmbeddedCloud, openEmbeddedCloud } from "../local/embedded-cloud.ts";
import { watchFolder } from "../local/moved-folder.ts";
import { watchForStop } from "../local/stop.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import { openLiveLine } from "../terminal/live.ts";
import { type Dashboard, startDashboard } from "../ui/child.ts";
import { type Activity, activityText, observe, type StoreSnapshot } from "./activity.ts";
import { refuseWildcardAddress } from "./address.ts";
import { isOpenToOthers, writePrivateFile } from "./environment-file.ts";

export interface CloudServeOptions {
  readonly host: string;
  /** Port of the DynamoDB API. */
  readonly port: number;
  /** Default: the one after `port`, or any free one if `port` is 0. */
  readonly s3Port?: number;
  readonly dir: string;
  readonly environmentFile?: string;
  /** Port of the dashboard; absent: none is served. */
  readonly uiPort?: number;
}

const POLL_SECONDS = 2;
const STDOUT = 1;

export async function serveCloud(options: CloudServeOptions): Promise<void> {
  const { host, port, s3Port, dir, environmentFile, uiPort } = options;
  refuseWildcardAddress(host);
  const ports = { dynamo: port, s3: s3Port ?? portAfter(port) };
  const stop = watchForStop();
  let dashboard: Dashboard | undefined;
  try {
    const session = await openEmbeddedCloud(dir, join(dir, "functions.log"), { host, ports });
    const moved = `${dir} was moved or deleted while it was served, so serving has stopped: put it back and start again`;
    const presence = watchFolder(dir, moved, stop.fail);
    try {
      reportEnvironment(session.environment, environmentFile);
      if (uiPort !== undefined) dashboard = await serveDashboard(session.environment, host, uiPort, stop.signal);
      await showActivity(session, stop.signal);
      stop.rethrow();
      presence.check();
    } finally {
      presence.dispose();
      dashboard?.close();
      await session.close();
    }
  } finally {
    stop.dispose();
  }
}

const LAST_PORT = 65_535;

function portAfter(port: number): number {
  if (port === LAST_PORT)
    throw new MgrpoError("config-invalid", `--port ${port} leaves no port after it for S3: name one with --s3-port`);
  return port === 0 ? 0 : port + 1;
}

function reportEnvironment(environment: EmbeddedCloud["environment"], file: string | undefined): void {
  const text = JSON.stringify({ ...environment, MGRPO_WORKER_TOKEN: workerToken(environment) });
  if (file === undefined) {
    console.log(text);
    if (isOpenToOthers(STDOUT))
      console.error(
        "warning: standard output is a file that other users may read, and it holds keys: use --environment-file",
      );
    return;
  }
  writePrivateFile(file, `${text}\n`);
  const { AWS_ENDPOINT_URL_DYNAMODB: dynamo, AWS_ENDPOINT_URL_S3: s3 } = environment;
  if (process.stdout.isTTY) console.log(`  DynamoDB at ${dynamo}, S3 at ${s3}\n  environment for workers: ${file}\n`);
  else console.log(JSON.stringify({ kind: "serving", dynamo, s3, environment: file }));
}

/**
 * Undefined if the user stops the command meanwhile: Ctrl-C ends the dashboard's process too. With a fixed port, the link is the same after a
 * restart. It goes to standard error: standard output may carry the workers' environment.
 */
async function serveDashboard(
  environment: EmbeddedCloud["environment"],
  host: string,
  port: number,
  signal: AbortSignal,
): Promise<Dashboard | undefined> {
  const key = createHmac("sha256", workerToken(environment)).update("dashboard").digest("base64url");
  const dashboard = await startDashboard(["--host", host, "--port", String(port)], {
    ...environment,
    MGRPO_UI_KEY: key,
  });
  if (!dashboard && signal.aborted) return undefined;
  if (!dashboard)
    throw new MgrpoError("config-invalid", `--ui-port ${port}: the dashboard did not start: is the port free?`);
  console.error(`dashboard: ${dashboard.link}`);
  return dashboard;
}

/** The secret that workers share, derived so that it lasts as long as the cloud's own keys. */
function workerToken({ AWS_SECRET_ACCESS_KEY: secret = "" }: EmbeddedCloud["environment"]): string {
  return createHmac("sha256", secret).update("calls between workers").digest("base64url");
}

/**
 * Runs until the signal aborts, whether or not the runs can be read: the workers of all runs need the store. Writes to standard error,
 * since standard output may be a file.
 */
export async function showActivity(
  { store, writes }: Pick<EmbeddedCloud, "store" | "writes">,
  signal: AbortSignal,
): Promise<void> {
  if (!process.stderr.isTTY) {
    if (!signal.aborted) await once(signal, "abort");
    return;
  }
  const line = openLiveLine(process.stderr);
  let before: StoreSnapshot | undefined;
  let activity: Activity | undefined;
  try {
    while (!signal.aborted) {
      const runs = await readRuns(store).catch(messageOf);
      if (typeof runs === "string") {
        line.show(() => runs);
      } else {
        const now = { seconds: store.clock.monotonic(), writes: writes().requests, runs };
        const shown = observe(now, before, activity?.lastEvent);
        line.show(() => activityText(shown, store.clock.monotonic()));
        [before, activity] = [now, shown];
      }
      await store.clock.sleep(POLL_SECONDS, signal);
    }
  } finally {
    line.close();
  }
}

const messageOf = (error: unknown): string => stripControlCharacters(errorText(error));

/** Omits damaged run records: `mgrpo runs` reports them. */
async function readRuns({ table }: Store): Promise<RunRecord[]> {
  const items = await Promise.all((await listedRuns(table)).map(({ run }) => table.get(tableKeys.run(run))));
  return items.flatMap((item) => RunRecord.safeParse(item).data ?? []);
}
