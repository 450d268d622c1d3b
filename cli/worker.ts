/** @file `mgrpo worker`: one agent of a run, against the store that the environment names, until it is told to stop. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { nodeArguments } from "./local/workers.ts";

export interface WorkerOptions {
  readonly run: string;
  readonly agent: string;
  readonly roles: string;
  readonly host: string;
  readonly port?: number;
  readonly url?: string;
}

export async function worker({ run, agent, roles, host, port = 0, url }: WorkerOptions): Promise<void> {
  const flags = ["--run", run, "--agent", agent, "--roles", roles, "--host", host, "--port", String(port)];
  if (url !== undefined) flags.push("--url", url);
  const child = spawn(process.execPath, [...nodeArguments("gpu-workers/worker"), ...flags], { stdio: "inherit" });
  const pass = (signal: NodeJS.Signals) => child.kill(signal);
  process.on("SIGTERM", pass).on("SIGINT", pass);
  const [code] = await once(child, "exit");
  process.exitCode = typeof code === "number" ? code : 1;
}
