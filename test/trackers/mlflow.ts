/** @file The PyPI packages of TensorBoard and MLflow, and a local MLflow server. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../fakes/proxies.ts";

/** TensorBoard 2.20 imports pkg_resources, which later setuptools lack; MLflow 3.6 imports a pool class that SQLAlchemy 2.1 lacks. */
export const TRACKER_PACKAGES = ["tensorboard==2.20.0", "setuptools<81", "mlflow==3.6.0", "sqlalchemy<2.1"];
const SERVER_SECONDS = 120;

export interface MlflowServer {
  readonly url: string;
  close(): Promise<void>;
}

export async function startMlflow(bin: string, folder: string): Promise<MlflowServer> {
  const port = await freePort();
  const store = `sqlite:///${join(folder, "mlflow.db")}`;
  const args = [
    "server",
    "--host",
    "127.0.0.1",
    "--port",
    String(port),
    "--workers",
    "1",
    "--backend-store-uri",
    store,
  ];
  const log = join(folder, "mlflow.log");
  const output = openSync(log, "w");
  const child = spawn(join(bin, "mlflow"), args, {
    ...{ cwd: folder, stdio: ["ignore", output, output], detached: true },
    env: { ...process.env, PATH: `${bin}:${process.env["PATH"]}` },
  });
  const url = `http://127.0.0.1:${port}`;
  for (let i = 0; i < SERVER_SECONDS && child.exitCode === null; i++) {
    if (await responds(url)) return { url, close: () => endGroup(child) };
    await sleep(1000);
  }
  await endGroup(child);
  throw new Error(`MLflow's server did not start: ${readFileSync(log, "utf8").trim().split("\n").at(-1)}`);
}

const responds = (url: string): Promise<boolean> =>
  fetch(`${url}/health`).then(
    ({ ok }) => ok,
    () => false,
  );

/** Ends the server's process group, which includes the processes that the server starts. Does nothing if the server has ended by itself. */
async function endGroup(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  if (child.pid !== undefined) process.kill(-child.pid, "SIGTERM");
  await ended;
}
