/** @file `mgrpo worker`: one agent of a run, against the store that the environment names, until it is told to stop. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { nodeArguments } from "./local/workers.ts";

export interface WorkerOptions {
  readonly run: string;
  readonly agent: string;
  readonly roles: string;
  readonly port?: number;
}

export async function worker({ run, agent, roles, port = 0 }: WorkerOptions): Promise<void> {
  const flags = ["--run", run, "--agent", agent, "--roles", roles, "--port", String(port)];
  const child = spawn(process.execPath, [...nodeArguments("gpu-workers/worker"), ...flags], { stdio: "inherit" });
  const pass = (signal: NodeJS.Signals) => child.kill(signal);
  process.on("SIGTERM", pass).on("SIGINT", pass);
  const [code] = await once(child, "exit");
  process.exitCode = typeof code === "number" ? code : 1;
}
