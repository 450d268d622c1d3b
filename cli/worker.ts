/** @file `mgrpo worker`: serves one agent of a run, on the store that the environment names, until the run ends or it is stopped. */

export interface WorkerOptions {
  readonly run: string;
  readonly agent: string;
  readonly roles: string;
  readonly host: string;
  readonly port?: number;
  readonly url?: string;
}

/** This process becomes the worker: a child would outlive its SIGKILL. */
export async function worker({ run, agent, roles, host, port = 0, url }: WorkerOptions): Promise<void> {
  const flags = ["--run", run, "--agent", agent, "--roles", roles, "--host", host, "--port", String(port)];
  if (url !== undefined) flags.push("--url", url);
  process.argv.splice(2, process.argv.length, ...flags);
  await import("../gpu-workers/worker.ts");
}
