/**
 * @file `mgrpo worker`: serves one agent of a run, or evaluates its team, on the store that the environment names, until the run ends or it
 * is stopped.
 */

export interface WorkerOptions {
  readonly run: string;
  readonly agent: string;
  readonly roles: string;
  readonly host: string;
  readonly port?: number;
  readonly url?: string;
}

/** Runs the worker in this process: a child process would survive this one's SIGKILL. */
export async function worker({ run, agent, roles, host, port = 0, url }: WorkerOptions): Promise<void> {
  const flags = ["--run", run, "--agent", agent, "--roles", roles, "--host", host, "--port", String(port)];
  if (url !== undefined) flags.push("--url", url);
  process.argv.splice(2, process.argv.length, ...flags);
  await import("../gpu-workers/worker.ts");
}
